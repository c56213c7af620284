#include "base/interrupt.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
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
          {
            const InterruptHold hold;  // not the last output
            closed.commit();
          }
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

TEST_CASE("signals after the output was replaced have no effect, and status 130 leaves the old output") {
  for (const bool folder_output : {false, true}) {
    CAPTURE(folder_output);
    const test::TempDir folder;
    const std::filesystem::path out = folder_output ? folder.path() / "out/a" : folder.path() / "out";
    const auto run = [&](bool signal_before) {
      return in_child([&] {
        install_signal_handlers();
        std::optional<OutputFile> file;
        std::optional<OutputFolder> tables;
        if (folder_output) {
          tables.emplace(folder.path() / "out");
        } else {
          file.emplace(out);
        }
        (folder_output ? tables->open("a") : *file).write(signal_before ? "before" : "after");
        if (signal_before) std::raise(SIGINT);
        try {
          folder_output ? tables->commit() : file->commit();
        } catch (const Error& error) {
          return static_cast<int>(error.status());
        }
        for (const int signal : {SIGINT, SIGINT, SIGTERM}) std::raise(signal);
        return interrupted() ? 1 : 0;
      });
    };
    CHECK(run(false) == 0);
    CHECK(test::slurp(out) == "after");
    CHECK(run(true) == 130);
    CHECK(test::slurp(out) == "after");
  }
}

TEST_CASE("a signal after the error of the first one has no effect") {
  const test::TempDir folder;
  const std::filesystem::path errors = folder.write("err", "");
  CHECK(in_child([&] {
          if (std::freopen(errors.c_str(), "w", stderr) == nullptr) return 1;
          install_signal_handlers();
          std::raise(SIGINT);
          ignore_signals();  // as before the message is printed
          std::raise(SIGINT);
          return 2;
        }) == 2);
  CHECK(test::slurp(errors).empty());
}

TEST_CASE("signals stay in effect after a commit with an InterruptHold") {
  const test::TempDir folder;
  CHECK(in_child([&] {
          install_signal_handlers();
          OutputFile out(folder.path() / "state");
          std::raise(SIGINT);
          {
            const InterruptHold hold;
            out.commit();
          }
          return interrupted() ? 0 : 1;
        }) == 0);
  CHECK(std::filesystem::exists(folder.path() / "state"));
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

TEST_CASE("running out of memory waits for a file that another thread is creating, and removes it") {
  const test::TempDir folder;
  const std::filesystem::path path = folder.path() / "hidden";
  const int status = in_child([&] {
    install_signal_handlers();
    ::alarm(60);  // ends a test that waits for ever
    std::atomic<bool> creates = false;
    std::thread([&] {
      const auto remembered = remember_temporary(path);
      {
        const CreationHold hold;
        creates = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        std::ofstream(path) << "x";
        std::ofstream(folder.path() / "created") << std::filesystem::exists(path);
      }
      const CreationHold later;
      std::ofstream(folder.path() / "later") << "x";
      ::pause();
    }).detach();
    while (!creates) std::this_thread::yield();
    end_out_of_memory();
    return 0;
  });
  CHECK(status == 5);
  CHECK(test::slurp(folder.path() / "created") == "1");
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "later"));
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
