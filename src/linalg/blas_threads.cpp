#include "linalg/blas_threads.hpp"

#include <mutex>

#include <cblas.h>

namespace attnctl::linalg {

void keep_blas_single_threaded() {
  thread_local bool done = false;
  if (done) return;
  static std::mutex one_at_a_time;  // the library does not expect it from several threads
  const std::lock_guard guard(one_at_a_time);
  openblas_set_num_threads(1);
  done = true;
}

}  // namespace attnctl::linalg
