#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace attnctl {

/// The BLAS library of this process and the kernel that it chose for this CPU, e.g. "OpenBLAS 0.3.21" and
/// "SkylakeX", "BLIS 0.9.0" and "skx". Of a library that tells no name, its file ("blas/libblas.so.3.11.0");
/// of one that tells no kernel, "unknown".
[[nodiscard]] std::string blas_name();
[[nodiscard]] std::string blas_kernel();

/// OpenBLAS takes 128 MiB of address space for every core while it is loaded, and where the system refuses
/// that (`ulimit -v`) it asks again for ever. To be run before the constructors of libraries (.preinit_array
/// of the executable): under such a limit executes the program again with OMP_NUM_THREADS=1, which makes that
/// one buffer, and ends it with Status::limit and a line on standard error where there is no room even so.
void prepare_for_blas(int argc, char** argv, char** environment);

/// The same buffers for the threads that will call BLAS at the same time, while none of them does yet. Does
/// nothing without such a limit. Throws Error(limit) where there is no room.
void reserve_blas_buffers(std::size_t threads);

/// OpenBLAS picks its kernel in a library constructor and falls back to SSE3 ones on CPUs that it does not
/// know, four to five times slower. Call first thing in main: where the CPU can do better (cpuid), sets
/// OPENBLAS_CORETYPE and executes the program again, once. A value that the user set stays, unless this CPU
/// lacks what it needs. Also makes BLAS single-threaded inside: threads are base/pool.hpp's. Returns a
/// warning to show, if any.
std::optional<std::string> ensure_blas_kernel(char** argv);

}  // namespace attnctl
