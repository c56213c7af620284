#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace attnctl {

/// A pool of worker threads. The thread that calls run() is one of the workers. Tasks must not call run(),
/// and they must call BLAS with one thread, so that parallel work is never nested.
class Pool {
 public:
  /// Starts `threads` - 1 threads, none for 0. Throws Error(limit) if the system cannot start a thread.
  explicit Pool(std::size_t threads);
  ~Pool();

  [[nodiscard]] std::size_t size() const;  // number of workers, including the calling thread

  /// Calls work(task, worker) once for each task in [0, tasks), with worker in [0, size()). Returns when all
  /// calls have ended. The workers take the tasks in ascending order. After an exception or an interrupt
  /// (base/interrupt.hpp) they take no more tasks. Then run() rethrows the exception of the lowest task that
  /// threw one, or throws Error(interrupted) if no task threw one.
  void run(std::size_t tasks, const std::function<void(std::size_t task, std::size_t worker)>& work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the number of cores that this process may use (at least 1), according to the affinity mask of the
/// calling thread and the CPU quotas of the process's cgroup (v2) and the ancestors of the cgroup.
[[nodiscard]] std::size_t available_threads();

/// Returns the CPU quota in the text of a file `cpu.max` (cgroup v2), in cores, rounded up: "150000 100000"
/// gives 2. Returns nullopt for malformed text and for "max ...", which means that there is no quota.
[[nodiscard]] std::optional<std::size_t> cores_of_cpu_max(std::string_view text);

/// Returns the smallest CPU quota of a cgroup and its ancestors, in cores; nullopt without quota. `root` is
/// the mount point of the cgroup file system, `group` a path as in /proc/self/cgroup ("/system.slice/x").
[[nodiscard]] std::optional<std::size_t> cores_of_cgroup(const std::filesystem::path& root,
                                                         std::string_view group);

/// Returns the CPU time of the calling thread in seconds, which excludes the time while it is blocked.
[[nodiscard]] double thread_seconds();

}  // namespace attnctl
