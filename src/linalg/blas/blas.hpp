#pragma once

#include <cstddef>
#include <optional>
#include <string>

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
