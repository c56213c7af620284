#pragma once

#include <optional>
#include <string>

// Which BLAS the process runs with, and what libraries have beside the standard's interface. Nothing of it is
// linked: the library may be another one when the program starts than it was when it was built.
namespace attnctl::linalg {

/// "OpenBLAS 0.3.21", "BLIS 0.9.0", "oneMKL 2024.1", else the library's file and its folder.
[[nodiscard]] std::string blas_library_name();
/// The kernel that it chose for this CPU; empty where it does not tell.
[[nodiscard]] std::string blas_library_kernel();

/// Is it an OpenBLAS? Its kernels can be chosen anew, and its work buffers be taken beforehand.
[[nodiscard]] bool is_openblas();
/// An OpenBLAS with threads of its own, which it makes while it is loaded.
[[nodiscard]] bool is_pthread_openblas();
/// One work buffer of OpenBLAS; null where it is another library.
[[nodiscard]] void* take_openblas_buffer();
void give_openblas_buffer(void* buffer);

/// For the calling thread, or the whole process, as the library has it. Nothing where it has no threads.
void set_blas_threads(int count);

}  // namespace attnctl::linalg
