#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// The BLAS and LAPACK library. The first call of blas_name(), of blas_kernel(), of blas_function(), or of a
// function of cblas.h or LAPACK loads it (blas.cpp explains why). Loading throws Error(environment) if the
// library cannot be loaded, and Error(limit) if a memory limit of the process is too low for it. A call of a
// cblas or LAPACK function that the library does not have throws Error(environment).
namespace attnctl::linalg {

/// Returns the name and version of the library, for example "OpenBLAS 0.3.21", "BLIS 0.9.0" or "oneMKL
/// 2024.1". For other libraries, returns the folder and file name, for example "blas/libblas.so.3.11.0".
[[nodiscard]] std::string blas_name();
/// Returns the name of the kernels that the library uses, for example "SkylakeX", or "unknown".
[[nodiscard]] std::string blas_kernel();
/// Returns a warning if OPENBLAS_CORETYPE has no effect or OpenBLAS uses slow kernels; otherwise nullopt.
/// Does not load the library; returns nullopt before it is loaded.
[[nodiscard]] std::optional<std::string> blas_warning();

/// Returns the address of a function of the library, and prepares this thread for calling it. Throws
/// Error(environment) if the library does not have the function.
[[nodiscard]] void* blas_function(const char* name);

/// Sets the number of threads that will call the library at the same time (default: 1). If the process has a
/// memory limit (ulimit -v or ulimit -d), the first call of a BLAS or LAPACK function reserves the memory
/// that OpenBLAS needs for all these threads.
void set_blas_callers(std::size_t threads);

/// Instruction sets that the CPU supports and whose registers the operating system saves.
struct CpuFeatures {
  bool avx = false;
  bool fma4 = false;
  bool avx2_fma = false;     // AVX2, FMA3 and F16C
  bool avx512 = false;       // AVX-512 F, CD, DQ, BW and VL, as in Skylake-X
  bool avx512_bf16 = false;  // AVX-512 as above, and BF16

  [[nodiscard]] static CpuFeatures of_this_cpu();
};

// Functions about kernels of OpenBLAS. A kernel is named as in OPENBLAS_CORETYPE.

/// Returns the kernel for the newest vector instructions of the CPU: SkylakeX (AVX-512), Haswell (AVX2 and
/// FMA), Sandybridge (AVX), or else Prescott.
[[nodiscard]] std::string widest_kernel(const CpuFeatures& cpu);
/// Returns false if the CPU lacks AVX or later instructions that a kernel needs. Does not check for SSE. True
/// for unknown names.
[[nodiscard]] bool runs_on(std::string_view kernel, const CpuFeatures& cpu);
/// Returns true if a kernel uses older vector instructions than those of widest_kernel(). From old to new:
/// SSE, AVX, FMA4, AVX2 with FMA, AVX-512, AVX-512 with BF16. False for unknown names.
[[nodiscard]] bool is_narrow(std::string_view kernel, const CpuFeatures& cpu);

}  // namespace attnctl::linalg
