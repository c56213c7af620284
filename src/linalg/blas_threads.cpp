#include "linalg/blas_threads.hpp"

#include "attnctl/base/error.hpp"

#include <cstddef>
#include <mutex>
#include <sys/mman.h>

#include <cblas.h>

namespace attnctl::linalg {
namespace {

/// OpenBLAS takes a work buffer of 128 MiB of address space for every thread that calls it, and where the
/// system refuses that it asks again for ever. So the question is put here, where a refusal can be told.
void require_work_buffer() {
  constexpr std::size_t buffer = std::size_t{160} << 20;
  void* const place =
      mmap(nullptr, buffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) {
    fail(Status::limit,
         "no address space for the work buffers of BLAS ({} bytes a thread); raise the limit of virtual "
         "memory, or "
         "use fewer --threads",
         buffer);
  }
  munmap(place, buffer);
}

}  // namespace

void keep_blas_single_threaded() {
  thread_local bool done = false;
  if (done) return;
  static std::mutex one_at_a_time;  // the library does not expect it from several threads
  const std::lock_guard guard(one_at_a_time);
  require_work_buffer();
  openblas_set_num_threads(1);
  done = true;
}

}  // namespace attnctl::linalg
