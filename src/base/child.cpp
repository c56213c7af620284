#include "base/child.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <exception>
#include <fcntl.h>
#include <new>
#include <poll.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "base/files/input_file.hpp"
#include "base/interrupt.hpp"

namespace attnctl {
namespace {

// ThreadSanitizer does not support threads in the child of a process with threads.
#ifdef __SANITIZE_THREAD__
constexpr bool kForks = false;
#else
constexpr bool kForks = true;
#endif

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      fail(Status::environment, "cannot create a pipe: {}", std::generic_category().message(errno));
    from = Descriptor(ends[0]);
    to = Descriptor(ends[1]);
  }
  Descriptor from, to;
};

bool send(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// Does the work in the child and ends it, without the destructors and handlers of the parent.
[[noreturn]] void serve(const std::function<std::string()>& work, const Pipe& out, const Pipe& err) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);  // the parent handles them
  forget_temporaries();
  std::set_new_handler(nullptr);
  std::signal(SIGABRT, SIG_DFL);
  ::dup2(err.to.number(), STDERR_FILENO);
  Status status = Status::limit;
  try {
    const std::string result = work();
    ::_exit(send(out.to.number(), result) ? 0 : static_cast<int>(status));
  } catch (const Error& error) {
    status = error.status();
    send(out.to.number(), error.what());
  } catch (const std::exception&) {
    send(out.to.number(), "out of memory");
  }
  ::_exit(static_cast<int>(status));
}

/// Reads the two pipes until the child has closed both.
void receive(ChildResult& result, Pipe& out, Pipe& err) {
  std::array<pollfd, 2> ends{{{out.from.number(), POLLIN, 0}, {err.from.number(), POLLIN, 0}}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    throw_if_interrupted();
    if (::poll(ends.data(), ends.size(), -1) < 0) {
      if (errno == EINTR) continue;
      fail(Status::environment, "cannot read from a child process: {}",
           std::generic_category().message(errno));
    }
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      std::array<char, 65536> buffer{};
      const ssize_t count = ::read(ends[i].fd, buffer.data(), buffer.size());
      if (count > 0)
        (i == 0 ? result.out : result.err).append(buffer.data(), static_cast<std::size_t>(count));
      if (count == 0 || (count < 0 && errno != EINTR)) ends[i].fd = -1;
    }
  }
}

/// Ends the child if it still runs, and waits for it.
struct Child {
  explicit Child(pid_t started) : id(started) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (id > 0) ::kill(id, SIGKILL);
    (void)wait();
  }
  int wait() {
    int state = 0;
    while (id > 0 && ::waitpid(id, &state, 0) < 0 && errno == EINTR) {
    }
    id = 0;
    return state;
  }
  pid_t id;
};

}  // namespace

ChildResult run_in_child(const std::function<std::string()>& work) {
  if (!kForks) {
    try {
      return {work(), {}, {}};
    } catch (const Error& error) {
      return {error.what(), {}, error.status()};
    }
  }
  Pipe out, err;
  Child child(::fork());
  if (child.id < 0) fail(Status::limit, "cannot start a process: {}", std::generic_category().message(errno));
  if (child.id == 0) serve(work, out, err);
  out.to = {};
  err.to = {};
  ChildResult result;
  receive(result, out, err);
  const int state = child.wait();
  if (WIFSIGNALED(state)) {
    result.failure = Status::limit;
    result.out =
        fmt::format("a library ended with signal {}, perhaps because memory is short", WTERMSIG(state));
  } else if (WEXITSTATUS(state) != 0) {
    const bool is_ours = !result.out.empty();  // otherwise, a library called exit()
    result.failure = is_ours ? static_cast<Status>(WEXITSTATUS(state)) : Status::limit;
    if (!is_ours) result.out = "a library gave up, perhaps because memory is short";
  }
  return result;
}

}  // namespace attnctl
