#include "base/interrupt.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <pthread.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/files/output_file.hpp"
#include "base/pool.hpp"
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

TEST_CASE("temporary folders in each other are removed, in whichever order they were added") {
  for (const bool outer_first : {true, false}) {
    CAPTURE(outer_first);
    const test::TempDir folder;
    const std::filesystem::path outer = folder.path() / "outer";
    const std::filesystem::path inner = outer / "inner";
    CHECK(in_child([&] {
            folder.write("outer/inner/file", "x");
            const auto first = remember_temporary(outer_first ? outer : inner);
            const auto second = remember_temporary(outer_first ? inner : outer);
            const auto third = remember_temporary(inner / "file");
            remove_temporaries();
            return 0;
          }) == 0);
    CHECK(std::filesystem::is_empty(folder.path()));
  }
}

TEST_CASE("the first signal ends a read that waits for input, also if another thread receives the signal") {
  for (const bool other_thread : {false, true}) {
    CAPTURE(other_thread);
    CHECK(in_child([other_thread] {
            int ends[2];
            if (::pipe(ends) != 0) return 1;
            install_signal_handlers();
            ::alarm(60);  // ends a test that waits for ever
            const pthread_t reader = pthread_self();
            std::thread sender([&] {
              std::this_thread::sleep_for(std::chrono::milliseconds(30));
              pthread_kill(other_thread ? pthread_self() : reader, SIGINT);
            });
            int status = 2;
            try {
              (void)read_descriptor(ends[0], "standard input", 10);
            } catch (const Error& error) {
              status = static_cast<int>(error.status());
            }
            sender.join();
            return status;
          }) == 130);
  }
}

TEST_CASE("an interrupt stops a pool, but not while the caller of run() holds interrupts") {
  CHECK(in_child([] {
          install_signal_handlers();
          std::raise(SIGINT);
          Pool pool(3);
          std::atomic<int> done{0};
          const auto work = [&](std::size_t /*task*/, std::size_t /*worker*/) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            if (!interrupted()) ++done;
          };
          {
            const InterruptHold hold;
            pool.run(50, work);
          }
          if (done != 50) return 1;
          try {
            pool.run(50, work);
          } catch (const Error& error) {
            return done == 50 ? static_cast<int>(error.status()) : 2;
          }
          return 3;
        }) == 130);
}
