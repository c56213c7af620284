#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace attnctl {

/// A persistent set of workers; the caller's thread is one of them. Work inside a task must not call run()
/// again and calls BLAS single-threaded: there are no nested threads anywhere.
class Pool {
 public:
  /// threads: at least 1. Throws Error(limit) where the system gives fewer.
  explicit Pool(std::size_t threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  [[nodiscard]] std::size_t size() const;

  /// Calls work(task, worker) once for each task in 0..tasks, worker in 0..size(); tasks are taken in
  /// ascending order by whichever worker is free. Returns when all are done. The first exception (of the
  /// lowest task that threw) is thrown again here; tasks not yet begun are then left out. An interrupt
  /// (base/interrupt.hpp) is noticed between tasks and thrown as Error(Status::interrupted).
  void run(std::size_t tasks, const std::function<void(std::size_t task, std::size_t worker)>& work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The cores that this process may use (its affinity mask, and the CPU quota of its cgroup), at least 1.
[[nodiscard]] std::size_t available_threads();

}  // namespace attnctl
