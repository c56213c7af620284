#pragma once

#include <optional>
#include <string>

namespace attnctl {

/// The BLAS library and the kernel that it chose for this CPU, e.g. "OpenBLAS 0.3.21" and "SkylakeX".
[[nodiscard]] std::string blas_name();
[[nodiscard]] std::string blas_kernel();

/// OpenBLAS picks its kernel in a library constructor and falls back to SSE3 ones on CPUs that it does not
/// know, four to five times slower. Call first thing in main: where the CPU can do better (cpuid), sets
/// OPENBLAS_CORETYPE and executes the program again, once. A value that the user set stays, unless this CPU
/// lacks what it needs. Also makes BLAS single-threaded inside: threads are base/pool.hpp's. Returns a
/// warning to show, if any.
std::optional<std::string> ensure_blas_kernel(char** argv);

}  // namespace attnctl
