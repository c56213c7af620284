#include "linalg/blas/blas_threads.hpp"

#include <cstddef>
#include <cstring>
#include <mutex>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "base/error.hpp"
#include "linalg/blas/blas_kernel.hpp"
#include "linalg/blas/blas_library.hpp"

namespace attnctl::linalg {
namespace {

/// A work buffer of OpenBLAS, and some room beside it.
constexpr std::size_t kWorkBuffer = std::size_t{160} << 20;

bool is_limited() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/// May the process have another work buffer?
bool has_room() {
  void* const place =
      mmap(nullptr, kWorkBuffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return false;
  munmap(place, kWorkBuffer);
  return true;
}

}  // namespace

void keep_blas_single_threaded() {
  thread_local bool done = false;
  if (done) return;
  static std::mutex one_at_a_time;  // the library does not expect it from several threads
  const std::lock_guard guard(one_at_a_time);
  set_blas_threads(1);
  done = true;
}

}  // namespace attnctl::linalg

namespace attnctl {

// The library maps a buffer where a call finds none free, and keeps it: so as many are taken at once.
void reserve_blas_buffers(std::size_t threads) {
  if (!linalg::is_openblas() || !linalg::is_limited()) return;
  std::vector<void*> taken;
  while (taken.size() < threads && linalg::has_room()) taken.push_back(linalg::take_openblas_buffer());
  for (void* const buffer : taken) linalg::give_openblas_buffer(buffer);
  if (taken.size() == threads) return;
  fail(Status::limit,
       "no address space for the work buffers of BLAS ({} bytes for each of {} threads); raise the limit of "
       "virtual memory, or use fewer --threads",
       linalg::kWorkBuffer, threads);
}

// Before the constructors of libraries, that of the C library too: system calls alone, and no setenv, which
// would not last.
void prepare_for_blas(int /*argc*/, char** argv, char** environment) {
  if (!linalg::is_limited()) return;
  static char one_thread[] = "OMP_NUM_THREADS=1";
  constexpr std::size_t most_variables = 4096;
  static char* changed[most_variables + 2];
  std::size_t count = 0;
  bool is_set = false;
  for (char** variable = environment; *variable != nullptr && count < most_variables; ++variable) {
    is_set = is_set || std::strcmp(*variable, one_thread) == 0;
    const bool other = std::strncmp(*variable, one_thread, sizeof one_thread - 2) == 0;
    if (!other) changed[count++] = *variable;
  }
  changed[count] = one_thread;
  if (!is_set) execve("/proc/self/exe", argv, changed);
  if (linalg::has_room()) return;
  constexpr std::string_view message =
      "attnctl: no address space for the work buffer of BLAS (160 MiB); raise the limit of virtual memory\n";
  const auto written = write(STDERR_FILENO, message.data(), message.size());
  _exit(written < 0 ? static_cast<int>(Status::environment) : static_cast<int>(Status::limit));
}

}  // namespace attnctl
