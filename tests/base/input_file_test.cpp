#include "base/files/input_file.hpp"

#include <csignal>
#include <fcntl.h>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>

#include <doctest/doctest.h>

#include "support/refusal.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;
using namespace attnctl::test;

namespace {

struct Pipe {
  int ends[2] = {-1, -1};
  explicit Pipe(int flags = 0) { REQUIRE(pipe2(ends, O_CLOEXEC | flags) == 0); }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void put(const std::string& text) const {
    CHECK(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  void finish() {
    close(ends[1]);
    ends[1] = -1;
  }
};

}  // namespace

TEST_CASE("read_file reads a whole file up to its limit") {
  const TempDir folder;
  const std::string text(200'000, 'x');
  const auto path = folder.write("x", text);
  CHECK(read_file(path, 200'000) == text);
  CHECK(read_file(folder.write("e", ""), 0).empty());
  check_refusal([&] { (void)read_file(path, 199'999); }, Status::bad_input, {"more than 199999 bytes"});
}

TEST_CASE("kind 136: a read error is an error of the environment") {
  // /proc/self/mem is a regular file, but address 0 cannot be read.
  check_refusal([] { (void)read_file("/proc/self/mem", 100); }, Status::environment,
                {"/proc/self/mem", "Input/output error"});
  const TempDir folder;
  const int directory = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  check_refusal([&] { (void)read_descriptor(directory, "standard\ninput", 100); }, Status::environment,
                {"standard\\x0ainput", "cannot read"});
  close(directory);
}

TEST_CASE("kind 136: short reads are joined, with and without O_NONBLOCK") {
  for (const int flags : {0, O_NONBLOCK}) {
    CAPTURE(flags);
    Pipe pipe(flags);
    std::thread writer([&] {
      for (int i = 0; i < 1000; ++i) pipe.put("piece ");
      pipe.finish();
    });
    const std::string text = read_descriptor(pipe.ends[0], "-", 100'000);
    writer.join();
    CHECK(text.size() == 6000);
    CHECK(text.ends_with("piece piece "));
  }
}

TEST_CASE("kind 137: an interrupted read continues") {
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = [](int) {};
  REQUIRE(sigaction(SIGUSR1, &action, &before) == 0);  // without SA_RESTART: read gives EINTR
  Pipe pipe;
  const pthread_t reader = pthread_self();
  std::thread writer([&] {
    for (int i = 0; i < 1000; ++i) {
      pthread_kill(reader, SIGUSR1);
      pipe.put("x");
    }
    pipe.finish();
  });
  CHECK(read_descriptor(pipe.ends[0], "-", 1000).size() == 1000);
  writer.join();
  sigaction(SIGUSR1, &before, nullptr);
}
