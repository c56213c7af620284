#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// The BLAS and LAPACK library. It is loaded at the first use (blas.cpp explains why), also by calls of the
// functions of cblas.h and of LAPACK. Loading throws Error(environment) if the library or one of its
// functions is missing, and Error(limit) if a limit of the process leaves too little memory for it.
namespace attnctl {

/// Returns the name and version of the library: "OpenBLAS 0.3.21", "BLIS 0.9.0", "oneMKL 2024.1", or the file
/// name with its folder ("blas/libblas.so.3.11.0") if the library does not report a name.
[[nodiscard]] std::string blas_name();
/// Returns the kernel that the library chose for this CPU ("SkylakeX"), or "unknown".
[[nodiscard]] std::string blas_kernel();
/// Returns a warning about OPENBLAS_CORETYPE or a slow kernel. Does not load the library.
[[nodiscard]] std::optional<std::string> blas_warning();

/// Sets the number of threads that will call the library at the same time (default: 1). If the process has a
/// memory limit (ulimit -v, ulimit -d), the first product reserves memory for each of them.
void set_blas_callers(std::size_t threads);

}  // namespace attnctl

namespace attnctl::linalg {

/// Instruction sets that this CPU has and whose registers the operating system saves.
struct CpuFeatures {
  bool avx = false;
  bool fma4 = false;
  bool avx2_fma = false;     // AVX2 and FMA3
  bool avx512 = false;       // F, CD, DQ, BW and VL, the set of Skylake-X
  bool avx512_bf16 = false;  // that set and BF16

  [[nodiscard]] static CpuFeatures of_this_cpu();
};

// Kernels of OpenBLAS, by the names that OPENBLAS_CORETYPE takes.

/// Compares two kernel names without case, as OpenBLAS does.
[[nodiscard]] bool same_kernel(std::string_view a, std::string_view b);
/// Returns the kernel with the widest vectors that the CPU has. Every OpenBLAS for x86-64 has this kernel.
[[nodiscard]] std::string widest_kernel(const CpuFeatures& cpu);
/// Returns whether the CPU has the instructions that a kernel needs. True for names not in our table.
[[nodiscard]] bool runs_on(std::string_view kernel, const CpuFeatures& cpu);
/// Returns whether a kernel uses narrower vectors than the CPU has. False for names not in our table.
[[nodiscard]] bool is_narrow(std::string_view kernel, const CpuFeatures& cpu);

}  // namespace attnctl::linalg

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
