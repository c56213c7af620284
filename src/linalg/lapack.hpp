#pragma once

#include <cstddef>

// Routines of LAPACK that xtensor-blas does not know (it brings the others in <xtensor-blas/xlapack.hpp>).
// Matrices are column-major. As Fortran has it: everything by address, lengths of strings last.
extern "C" {

/// QR of a [m, n] by blocks of nb columns, each recursively: R takes the upper triangle, the reflectors the
/// rest; t [nb, min(m, n)] their factors, work [nb n].
void dgeqrt_(const int* m, const int* n, const int* nb, double* a, const int* lda, double* t, const int* ldt,
             double* work, int* info);

/// c [m, n] = Q c or Q^T c (side 'L', trans 'N' or 'T') with the k reflectors of dgeqrt; work [nb n].
void dgemqrt_(const char* side, const char* trans, const int* m, const int* n, const int* k, const int* nb,
              const double* v, const int* ldv, const double* t, const int* ldt, double* c, const int* ldc,
              double* work, int* info, std::size_t side_length, std::size_t trans_length);
}
