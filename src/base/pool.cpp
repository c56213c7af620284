#include "base/pool.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <exception>
#include <fstream>
#include <mutex>
#include <sched.h>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/interrupt.hpp"

namespace attnctl {
namespace {

/// The data of one call of run() that all workers share.
struct PoolJob {
  std::size_t tasks;
  const std::function<void(std::size_t, std::size_t)>& work;
  const int holds = InterruptHold::holds;                  // number of holds of the thread that called run()
  const std::stop_token* const stop = StopScope::current;  // of the same thread
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopped{false};

  std::mutex mutex{};  // guards the members below
  std::exception_ptr failure{};
  std::size_t failed_task = 0;

  void process(std::size_t worker) {
    while (!stopped.load(std::memory_order_relaxed)) {
      if (interrupted()) {
        stopped = true;
        return;
      }
      const std::size_t task = next.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks) return;
      try {
        work(task, worker);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (failure == nullptr || task < failed_task) {
          failure = std::current_exception();
          failed_task = task;
        }
        stopped = true;
      }
    }
  }
};

/// Waits until `done` returns true: spins for about 40 us, then blocks. The time between two jobs of a
/// forward pass is usually shorter than this, and waking a blocked thread is slow.
template <typename F>
void wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& signal, const F& done) {
  constexpr auto kLimit = std::chrono::microseconds(40);
  constexpr int kTriesPerClockRead = 32;
  if (!done()) {
    lock.unlock();
    const auto end = std::chrono::steady_clock::now() + kLimit;
    for (int i = 0; !done(); ++i) {
      if (i % kTriesPerClockRead == 0 && std::chrono::steady_clock::now() >= end) break;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    lock.lock();
  }
  signal.wait(lock, done);
}

/// Returns the path in the line "0::/path" of /proc/self/cgroup (cgroup v2); empty if this line is missing.
std::string own_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return {};
}

}  // namespace

struct Pool::State {
  std::mutex mutex;
  std::condition_variable begun, finished;
  PoolJob* job = nullptr;
  // Written only under the mutex. wait_until() also reads them without the mutex.
  std::atomic<std::size_t> seats{0};   // number of threads that may still join the job
  std::atomic<std::size_t> active{0};  // number of threads that joined and have not left
  std::atomic<bool> closing{false};

  void serve(std::size_t worker) {
    std::unique_lock lock(mutex);
    while (true) {
      wait_until(lock, begun, [&] { return closing || seats > 0; });
      if (closing) return;
      --seats;
      ++active;
      PoolJob& current = *job;
      InterruptHold::holds = current.holds;
      StopScope::current = current.stop;
      lock.unlock();
      current.process(worker);
      lock.lock();
      if (--active == 0) finished.notify_one();
    }
  }

  void share(PoolJob& shared, std::size_t helpers) {
    {
      const std::lock_guard lock(mutex);
      job = &shared;
      seats = helpers;
    }
    if (helpers == threads.size()) {
      begun.notify_all();
    } else {
      for (std::size_t i = 0; i < helpers; ++i) begun.notify_one();
    }
    shared.process(0);
    std::unique_lock lock(mutex);
    seats = 0;  // every task has started, or the job has stopped
    wait_until(lock, finished, [&] { return active == 0; });
    job = nullptr;
  }

  ~State() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    begun.notify_all();
  }

  std::vector<std::jthread> threads;  // last member, so that the threads end before the others are destroyed
};

Pool::Pool(std::size_t threads) : state_(std::make_unique<State>()) {
  try {
    for (std::size_t worker = 1; worker < std::max<std::size_t>(threads, 1); ++worker)
      state_->threads.emplace_back([state = state_.get(), worker] { state->serve(worker); });
  } catch (const std::system_error& error) {
    fail(Status::limit, "cannot start more than {} of {} threads ({}); give a smaller --threads",
         state_->threads.size() + 1, threads, error.code().message());
  }
}

Pool::~Pool() = default;

std::size_t Pool::size() const {
  return state_->threads.size() + 1;
}

void Pool::run(std::size_t tasks, const std::function<void(std::size_t, std::size_t)>& work) {
  PoolJob job{tasks, work};
  const std::size_t helpers = tasks == 0 ? 0 : std::min(tasks - 1, state_->threads.size());
  if (helpers == 0) {
    job.process(0);
  } else {
    state_->share(job, helpers);
  }
  if (job.failure != nullptr) std::rethrow_exception(job.failure);
  throw_if_interrupted();
}

std::optional<std::size_t> cores_of_cpu_max(std::string_view text) {
  const std::vector<std::string_view> numbers = split(text, ' ');
  const auto quota = parse_number(numbers.front());
  const auto period = parse_number(numbers.back());
  if (numbers.size() != 2 || !quota || !period || *period == 0) return std::nullopt;
  const std::size_t cores = *quota / *period + (*quota % *period != 0 ? 1 : 0);
  return std::max<std::size_t>(1, cores);
}

std::optional<std::size_t> cores_of_cgroup(const std::filesystem::path& root, std::string_view group) {
  std::optional<std::size_t> least;
  std::filesystem::path path = root / std::filesystem::path(group).relative_path();
  for (; path.native().size() >= root.native().size(); path = path.parent_path()) {
    std::ifstream file(path / "cpu.max");
    std::string line;
    std::getline(file, line);
    if (const auto cores = cores_of_cpu_max(line)) least = std::min(least.value_or(*cores), *cores);
  }
  return least;
}

std::size_t available_threads() {
  std::size_t cores = std::thread::hardware_concurrency();
  std::array<cpu_set_t, 128> set{};  // for 131,072 cores: the kernel rejects a mask smaller than its own
  if (sched_getaffinity(0, sizeof(set), set.data()) == 0)
    cores = static_cast<std::size_t>(CPU_COUNT_S(sizeof(set), set.data()));
  const auto quota = cores_of_cgroup("/sys/fs/cgroup", own_cgroup());
  if (quota) cores = std::min(cores, *quota);
  return std::max<std::size_t>(1, cores);
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace attnctl
