#include "cli/run.hpp"
#include "linalg/blas/blas_kernel.hpp"

namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
[[gnu::section(".preinit_array"), gnu::used]] void (*const prepare)(int, char**,
                                                                    char**) = attnctl::prepare_for_blas;
#endif

}  // namespace

int main(int argc, char** argv) {
  return attnctl::cli::run(argc, argv);
}
