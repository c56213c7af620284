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

TEST_CASE("the size of a missing file is an error of the environment") {
  const TempDir folder;
  CHECK(size_of_file(folder.write("x", "four")) == 4);
  check_refusal([&] { (void)size_of_file(folder.path() / "none"); }, Status::environment,
                {"none: cannot read its size: No such file"});
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

struct Compression {
  std::string extension;
  std::string (*pack)(const std::string&);
  std::string tail_error;    // message about bytes after the last gzip member or zstd frame
  std::string change_error;  // message about a changed byte in the checksum
  std::size_t checksum;      // distance of this byte from the end of the file
};

const std::vector<Compression> kCompressions = {
    {".gz", gzip, "incorrect header check", "incorrect data check", 8},
    {".zst", zstd, "Unknown frame descriptor", "doesn't match checksum", 1}};

TEST_CASE("a compressed file is unpacked in pieces of any size, up to a limit") {
  const TempDir folder;
  std::mt19937 random{5};
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(random()) + '\n';
  const std::string whole = "one\n" + text;
  for (const Compression& compression : kCompressions) {
    CAPTURE(compression.extension);
    const auto pack = compression.pack;
    const auto path = folder.write("a" + compression.extension, pack("one\n") + pack("") + pack(text));
    CHECK(InputStream(path).read_all(whole.size()) == whole);
    check_refusal([&] { (void)InputStream(path).read_all(whole.size() - 1); }, Status::bad_input,
                  {"a" + compression.extension + ": has more than", "the limit"});
    for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, 2 * whole.size()}) {
      CAPTURE(size);
      InputStream stream(path);
      CHECK(stream.length() == std::filesystem::file_size(path));
      std::string all, piece(size, ' ');
      for (std::size_t got = size; got == size;) {
        got = stream.read(piece);
        all.append(piece, 0, got);
      }
      CHECK(all == whole);
      CHECK(stream.read(piece) == 0);
      const std::uint64_t end = std::filesystem::file_size(path);
      CHECK(stream.position(whole.size()) == end);
      CHECK(stream.position(whole.size() / 2) <= end / 2);
      CHECK(stream.position(whole.size() / 2) + 1 >= end / 2);
      CHECK(stream.position(0) == 0);
    }
    const std::string bomb(std::size_t{16} << 20, ' ');
    const auto packed_bomb = folder.write("b" + compression.extension, pack(bomb));
    check_refusal([&] { (void)InputStream(packed_bomb).read_all(1000); }, Status::bad_input,
                  {"b" + compression.extension + ": has more than 1000 bytes"});
  }
}

TEST_CASE("zero bytes after a gzip member are ignored, as by gzip") {
  const TempDir folder;
  const auto read = [&](const std::string& bytes) {
    return InputStream(folder.write("a.gz", bytes)).read_all(1000);
  };
  const std::string zeros(100'000, '\0');
  CHECK(read(gzip("one\n") + zeros) == "one\n");
  CHECK(read(gzip("one\n") + std::string(1, '\0') + gzip("two\n")) == "one\ntwo\n");
  check_refusal([&] { (void)read(zeros); }, Status::bad_input, {"a.gz: damaged"});
  check_refusal([&] { (void)read(gzip("one\n") + zeros + "x"); }, Status::bad_input, {"a.gz: damaged"});
}

TEST_CASE("a damaged compressed file is an error that names the file") {
  const TempDir folder;
  for (const Compression& compression : kCompressions) {
    const std::string name = "bad" + compression.extension;
    CAPTURE(name);
    const std::string file = compression.pack("The cat sat on the mat.\n");
    const auto check = [&](const std::string& bytes, const std::string& part) {
      const auto path = folder.write(name, bytes);
      check_refusal([&] { (void)InputStream(path).read_all(1000); }, Status::bad_input,
                    {name + ": damaged", part});
    };
    for (std::size_t size = 0; size < file.size(); ++size) check(file.substr(0, size), "end too early");
    for (std::size_t size = 1; size < file.size(); ++size)
      check(file + file.substr(0, size), "end too early");
    std::string changed = file;
    char& byte = changed[file.size() - compression.checksum];
    byte = static_cast<char>(~byte);
    check(changed, compression.change_error);
    check("The cat sat on the mat.\n", compression.tail_error);
    check(file + "bytes after the end", compression.tail_error);
  }
}

TEST_CASE("a zstd header with a huge size is an error without a large allocation") {
  const TempDir folder;
  // Magic number, frame header, and one last block of three bytes that are not compressed.
  const auto frame = [&](const std::string& header) {
    const std::string bytes = little_endian(0xFD2FB528, 4) + header + little_endian(3 << 3 | 1, 3) + "one";
    return InputStream(folder.write("a.zst", bytes)).read_all(1000);
  };
  CHECK(frame(little_endian(0, 1) + little_endian((27 - 10) << 3, 1)) == "one");
  check_refusal([&] { (void)frame(little_endian(0, 1) + little_endian((28 - 10) << 3, 1)); },
                Status::bad_input, {"a.zst: its zstd window is larger than 128 MiB", "without --long"});
  const std::string huge = little_endian(std::uint64_t{1} << 62, 8);  // size of the text
  check_refusal([&] { (void)frame(little_endian(0xC0, 1) + little_endian(0, 1) + huge); }, Status::bad_input,
                {"a.zst: damaged", "corruption"});
  check_refusal([&] { (void)frame(little_endian(0xE0, 1) + huge); }, Status::bad_input,
                {"a.zst: its zstd window is larger than 128 MiB"});
}
