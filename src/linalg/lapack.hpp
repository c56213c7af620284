#pragma once

#include <cstddef>

// LAPACK routines that xtensor-blas does not declare. Matrices are column-major. Fortran takes every argument
// by address, and the lengths of strings last.
extern "C" {

/// Overwrites a [m, n] with its QR by blocks of nb columns: R in the upper triangle, the reflectors below it,
/// and their factors in t [nb, min(m, n)]. work [nb n].
void dgeqrt_(const int* m, const int* n, const int* nb, double* a, const int* lda, double* t, const int* ldt,
             double* work, int* info);

/// Computes c [m, n] = Q c or Q^T c (side 'L', trans 'N' or 'T') with the k reflectors of dgeqrt. work [nb
/// n].
void dgemqrt_(const char* side, const char* trans, const int* m, const int* n, const int* k, const int* nb,
              const double* v, const int* ldv, const double* t, const int* ldt, double* c, const int* ldc,
              double* work, int* info, std::size_t side_length, std::size_t trans_length);
}
