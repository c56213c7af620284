#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace attnctl {

/// A pool of worker threads. The calling thread is one of the workers. Tasks must not call run(), and they
/// must call BLAS with one thread, so that parallel work is never nested.
class Pool {
 public:
  /// Starts `threads` - 1 threads. Throws Error(limit) if the system cannot start a thread.
  explicit Pool(std::size_t threads);
  ~Pool();

  [[nodiscard]] std::size_t size() const;  // number of workers, including the calling thread

  /// Calls work(task, worker) once for each task in [0, tasks), with worker in [0, size()). Returns when all
  /// calls have ended. Tasks start in ascending order. After an exception no further task starts, and run()
  /// rethrows the exception of the lowest task that threw one. After an interrupt (base/interrupt.hpp) no
  /// further task starts, and Error(interrupted) is thrown.
  void run(std::size_t tasks, const std::function<void(std::size_t task, std::size_t worker)>& work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the number of cores that this process may use (at least 1), according to its affinity mask and the
/// CPU quotas of its cgroup (v2) and the ancestors of the cgroup.
[[nodiscard]] std::size_t available_threads();

/// Returns the number of cores in the text of a cgroup v2 file `cpu.max`, rounded up: "150000 100000" gives
/// 2. Returns nullopt for malformed text and for "max ...", which means that nothing limits it.
[[nodiscard]] std::optional<std::size_t> cores_of_cpu_max(std::string_view text);

/// Returns the smallest CPU quota, in cores, of a cgroup and its ancestors, or nullopt if no quota exists.
/// `root` is the mount point. `group` is a path as in /proc/self/cgroup ("/system.slice/x").
[[nodiscard]] std::optional<std::size_t> cores_of_cgroup(const std::filesystem::path& root,
                                                         std::string_view group);

/// Returns the CPU time of this thread in seconds. It excludes the time that the thread waits.
[[nodiscard]] double thread_seconds();

}  // namespace attnctl
