#include "base/interrupt.hpp"

#include <csignal>
#include <filesystem>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;

namespace {

/// Returns the exit status of a child process that runs `work`. Each case needs a separate process, because
/// signal handlers are global.
int in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(work());
  int state = 0;
  REQUIRE(waitpid(child, &state, 0) == child);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

}  // namespace

TEST_CASE("the first signal sets a flag and makes throw_if_interrupted() throw") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    CHECK(in_child([signal] {
            install_signal_handlers();
            throw_if_interrupted();
            if (interrupted()) return 1;
            std::raise(signal);
            if (!interrupted()) return 2;
            try {
              throw_if_interrupted();
            } catch (const Error& error) {
              return static_cast<int>(error.status());
            }
            return 3;
          }) == 130);
  }
}

TEST_CASE("SIGPIPE and SIGXFSZ do not end the process, and nohup stays in effect") {
  CHECK(in_child([] {
          std::signal(SIGHUP, SIG_IGN);
          install_signal_handlers();
          for (const int signal : {SIGPIPE, SIGXFSZ, SIGHUP}) std::raise(signal);
          return interrupted() ? 1 : 0;
        }) == 0);
}

TEST_CASE("a second signal ends the process and removes open temporary files") {
  const test::TempDir folder;
  CHECK(in_child([&] {
          ::close(STDERR_FILENO);
          install_signal_handlers();
          OutputFile closed(folder.path() / "closed");
          closed.write("x");
          closed.commit();
          const OutputFile first(folder.path() / "first");
          OutputFolder second(folder.path() / "second");
          second.open("table").write("x");
          std::raise(SIGINT);
          std::raise(SIGTERM);
          return 1;
        }) == 130);
  CHECK(std::filesystem::exists(folder.path() / "closed"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()),
                      std::filesystem::directory_iterator()) == 1);
}
