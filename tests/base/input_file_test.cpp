#include "base/files/input_file.hpp"

#include <csignal>
#include <fcntl.h>
#include <pthread.h>
#include <random>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "support/bytes.hpp"
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

TEST_CASE("a gzip file is unpacked in pieces of any size, up to a limit") {
  const TempDir folder;
  std::mt19937 random{5};
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(random()) + '\n';
  const auto path = folder.write("a.gz", gzip("one\n") + gzip("") + gzip(text));
  text.insert(0, "one\n");
  CHECK(InputStream(path).read_all(text.size()) == text);
  check_refusal([&] { (void)InputStream(path).read_all(text.size() - 1); }, Status::bad_input,
                {"a.gz: has more than", "the limit"});
  for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, 2 * text.size()}) {
    CAPTURE(size);
    InputStream stream(path);
    CHECK(stream.length() == std::filesystem::file_size(path));
    std::string all, piece(size, ' ');
    for (std::size_t got = size; got == size;) {
      got = stream.read(piece);
      all.append(piece, 0, got);
    }
    CHECK(all == text);
    CHECK(stream.read(piece) == 0);
    const std::uint64_t end = std::filesystem::file_size(path);
    CHECK(stream.position(text.size()) == end);
    CHECK(stream.position(text.size() / 2) <= end / 2);
    CHECK(stream.position(text.size() / 2) + 1 >= end / 2);
    CHECK(stream.position(0) == 0);
  }
  const std::string bomb(std::size_t{16} << 20, ' ');
  check_refusal([&] { (void)InputStream(folder.write("b.gz", gzip(bomb))).read_all(1000); },
                Status::bad_input, {"b.gz: has more than 1000 bytes"});
}

TEST_CASE("a damaged gzip file is an error that names the file") {
  const TempDir folder;
  const std::string file = gzip("The cat sat on the mat.\n");
  const auto check = [&](const std::string& bytes, std::string_view part) {
    const auto path = folder.write("bad.gz", bytes);
    check_refusal([&] { (void)InputStream(path).read_all(1000); }, Status::bad_input,
                  {"bad.gz: damaged", part});
  };
  for (std::size_t size = 0; size < file.size(); ++size) check(file.substr(0, size), "end too early");
  for (std::size_t size = 1; size < file.size(); ++size) check(file + file.substr(0, size), "end too early");
  std::string changed = file;
  changed[file.size() - 8] = static_cast<char>(~changed[file.size() - 8]);
  check(changed, "incorrect data check");
  check("The cat sat on the mat.\n", "incorrect header check");
  check(file + "tail", "incorrect header check");
}
