#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

namespace attnctl {

/// A persistent pool of workers. The calling thread is one of them. Tasks must not call run() and must call
/// BLAS single-threaded, so that threads are never nested.
class Pool {
 public:
  /// Starts `threads` - 1 threads. Throws Error(limit) if the system refuses one.
  explicit Pool(std::size_t threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Returns the number of workers, the calling thread included.
  [[nodiscard]] std::size_t size() const;

  /// Calls work(task, worker) once per task in [0, tasks), with worker in [0, size()), and returns when all
  /// calls have ended. Tasks start in ascending order. After an exception no further task starts, and the
  /// exception of the lowest task is rethrown here. An interrupt (base/interrupt.hpp) has the same effect.
  void run(std::size_t tasks, const std::function<void(std::size_t task, std::size_t worker)>& work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the number of cores that this process may use, from its affinity mask and the CPU quota of its
/// cgroup; at least 1.
[[nodiscard]] std::size_t available_threads();

/// Returns the number of cores that the text of a cgroup v2 `cpu.max` grants, rounded up ("150000 100000":
/// 2). Returns nullopt for "max ...", which sets no limit, and for malformed text.
[[nodiscard]] std::optional<std::size_t> cores_of_cpu_max(std::string_view text);

/// Returns the smallest CPU quota of a cgroup and its ancestors, in cores. `root` is the mount point, `group`
/// a path as in /proc/self/cgroup ("/system.slice/x").
[[nodiscard]] std::optional<std::size_t> cores_of_cgroup(const std::filesystem::path& root,
                                                         std::string_view group);

/// Returns the CPU time of this thread in seconds. Unlike wall time it excludes waiting and other programs.
[[nodiscard]] double thread_seconds();

}  // namespace attnctl
