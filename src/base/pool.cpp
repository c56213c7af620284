#include "base/pool.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/cpu_quota.hpp"
#include "base/error.hpp"
#include "base/interrupt.hpp"

namespace attnctl {
namespace {

/// What one run() shares between its workers.
struct Job {
  Job(std::size_t task_count, const std::function<void(std::size_t, std::size_t)>& function)
      : tasks(task_count), work(function) {}

  std::size_t tasks;
  const std::function<void(std::size_t, std::size_t)>& work;
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopped{false};

  std::mutex mutex;  // of what follows
  std::exception_ptr failure;
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
        keep_failure(task, std::current_exception());
      }
    }
  }

  void keep_failure(std::size_t task, const std::exception_ptr& exception) {
    const std::lock_guard lock(mutex);
    if (failure == nullptr || task < failed_task) {
      failure = exception;
      failed_task = task;
    }
    stopped = true;
  }
};

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Waits until `done` says so, but for some microseconds at most: what a pass does between two jobs takes
/// less, and a thread that went to sleep takes longer to come back. Who is idle sleeps.
template <typename F>
void wait_briefly(const F& done) {
  constexpr auto limit = std::chrono::microseconds(40);
  constexpr int tries_between_looks = 32;
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < tries_between_looks; ++i) {
      if (done()) return;
      pause_briefly();
    }
  }
}

}  // namespace

struct Pool::State {
  std::mutex mutex;
  std::condition_variable begun, finished;
  Job* job = nullptr;
  // Written under the mutex; read without it by who waits briefly.
  std::atomic<std::size_t> seats{0};   // workers that the job still takes
  std::atomic<std::size_t> active{0};  // workers that took a seat and have not left
  std::atomic<bool> closing{false};
  std::vector<std::thread> threads;

  void serve(std::size_t worker) {
    std::unique_lock lock(mutex);
    while (true) {
      const auto called = [&] { return closing || seats > 0; };
      if (!called()) {
        lock.unlock();
        wait_briefly(called);
        lock.lock();
      }
      begun.wait(lock, called);
      if (closing) return;
      --seats;
      ++active;
      Job& current = *job;
      lock.unlock();
      current.process(worker);
      lock.lock();
      if (--active == 0) finished.notify_one();
    }
  }

  void share(Job& shared, std::size_t helpers) {
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
    seats = 0;  // a worker that has not come by now would find no task
    const auto all_left = [&] { return active == 0; };
    if (!all_left()) {
      lock.unlock();
      wait_briefly(all_left);
      lock.lock();
    }
    finished.wait(lock, all_left);
    job = nullptr;
  }

  void close() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    begun.notify_all();
    for (std::thread& thread : threads) thread.join();
  }
};

Pool::Pool(std::size_t threads) : state_(std::make_unique<State>()) {
  try {
    for (std::size_t worker = 1; worker < std::max<std::size_t>(threads, 1); ++worker) {
      state_->threads.emplace_back([state = state_.get(), worker] { state->serve(worker); });
    }
  } catch (const std::system_error& error) {
    const std::size_t started = state_->threads.size() + 1;
    state_->close();
    fail(Status::limit, "only {} of {} threads could be started ({}); give fewer --threads", started, threads,
         error.code().message());
  } catch (...) {
    state_->close();
    throw;
  }
}

Pool::~Pool() {
  state_->close();
}

std::size_t Pool::size() const {
  return state_->threads.size() + 1;
}

void Pool::run(std::size_t tasks, const std::function<void(std::size_t, std::size_t)>& work) {
  Job job(tasks, work);
  const std::size_t helpers = tasks == 0 ? 0 : std::min(tasks - 1, state_->threads.size());
  if (helpers == 0) {
    job.process(0);
  } else {
    state_->share(job, helpers);
  }
  if (job.failure != nullptr) std::rethrow_exception(job.failure);
  throw_if_interrupted();
}

}  // namespace attnctl
