#include "support/run.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <pty.h>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace attnctl::test {
namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    read_end = ends[0];
    write_end = ends[1];
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(read_end);
    close_end(write_end);
  }
  static void close_end(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
};

/// Becomes the command, in the folder and with the environment of the options.
[[noreturn]] void become(const std::vector<std::string>& command, const RunOptions& options) {
  if (chdir(options.directory.c_str()) != 0) _exit(126);
  const std::string folder = std::filesystem::path(ATTNCTL_BINARY).parent_path().string();
  const char* path = std::getenv("PATH");
  setenv("PATH", (folder + ":" + (path != nullptr ? path : "/usr/bin:/bin")).c_str(), 1);
  unsetenv("COLUMNS");
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

int status_of(int state) {
  return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

/// Writes the input to a child process and reads its outputs until it has closed both.
void exchange_bytes(const RunOptions& options, pid_t child, Pipe& in, Pipe& out, Pipe& err,
                    RunResult& result) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  bool signalled = !options.signal;
  std::size_t fed = 0;
  if (options.input.empty()) Pipe::close_end(in.write_end);
  while (out.read_end >= 0 || err.read_end >= 0) {
    pollfd polled[3] = {{in.write_end, POLLOUT, 0}, {out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}};
    timespec wait{};
    if (!signalled) {
      const std::chrono::nanoseconds left = start + options.signal->after - Clock::now();
      if (left.count() <= 0) kill(child, options.signal->number);
      signalled = left.count() <= 0;
      wait = {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    }
    if (ppoll(polled, 3, signalled ? nullptr : &wait, nullptr) < 0 && errno != EINTR)
      throw std::runtime_error("ppoll failed");
    if (in.write_end >= 0 && polled[0].revents != 0) {
      const ssize_t n = write(in.write_end, options.input.data() + fed, options.input.size() - fed);
      if (n > 0) fed += static_cast<std::size_t>(n);
      if (n < 0 || fed == options.input.size()) Pipe::close_end(in.write_end);
    }
    const auto drain = [](int& end, short events, std::string& text) {
      if (end < 0 || events == 0) return;
      char buffer[65536];
      const ssize_t n = read(end, buffer, sizeof buffer);
      if (n > 0) {
        text.append(buffer, static_cast<std::size_t>(n));
      } else {
        Pipe::close_end(end);
      }
    };
    drain(out.read_end, polled[1].revents, result.out);
    drain(err.read_end, polled[2].revents, result.err);
  }
}

RunResult run_command(const std::vector<std::string>& command, const RunOptions& options) {
  Pipe in;
  Pipe out;
  Pipe err;
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    dup2(in.read_end, 0);
    dup2(out.write_end, 1);
    dup2(err.write_end, 2);
    become(command, options);
  }
  Pipe::close_end(in.read_end);
  Pipe::close_end(out.write_end);
  Pipe::close_end(err.write_end);
  RunResult result;
  exchange_bytes(options, child, in, out, err, result);
  int state = 0;
  rusage usage{};
  wait4(child, &state, 0, &usage);
  result.peak_bytes = static_cast<std::size_t>(usage.ru_maxrss) * 1024;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  result.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  result.status = status_of(state);
  return result;
}

}  // namespace

RunResult run_attnctl(const std::vector<std::string>& arguments, const RunOptions& options) {
  std::vector<std::string> command = {ATTNCTL_BINARY};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_command(command, options);
}

RunResult run_shell(const std::string& command, const RunOptions& options) {
  return run_command({"/bin/sh", "-c", command}, options);
}

std::optional<RunResult> run_in_terminal(const std::string& command, std::size_t columns,
                                         const RunOptions& options) {
  winsize size{};
  size.ws_row = 40;
  size.ws_col = static_cast<unsigned short>(columns);
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0) return std::nullopt;
  if (child == 0) become({"/bin/sh", "-c", command}, options);
  RunResult result;
  char buffer[65536];
  ssize_t count = 0;  // negative (EIO) when the command has ended
  while ((count = read(terminal, buffer, sizeof buffer)) > 0 || (count < 0 && errno == EINTR))
    if (count > 0) result.out.append(buffer, static_cast<std::size_t>(count));
  close(terminal);
  int state = 0;
  waitpid(child, &state, 0);
  result.status = status_of(state);
  return result;
}

}  // namespace attnctl::test
