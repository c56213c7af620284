
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/files/input_file.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;
using namespace attnctl::test;

namespace {

std::size_t sum_of(std::span<const std::byte> bytes) {
  std::size_t sum = 0;
  for (const std::byte byte : bytes) sum += static_cast<std::size_t>(byte);
  return sum;
}

}  // namespace

TEST_CASE("a mapped file returns its bytes") {
  const TempDir folder;
  const MappedFile file(folder.write("x", "abc"));
  CHECK(sum_of(file.bytes()) == 'a' + 'b' + 'c');
  CHECK(file.path() == (folder.path() / "x").string());
  CHECK_NOTHROW(file.check());
  file.forget(file.bytes());
  CHECK(sum_of(file.bytes()) == 'a' + 'b' + 'c');
  CHECK(file.text() == "abc");
  const MappedFile memory("a\nb", file.bytes());
  CHECK(memory.name() == "a\\x0ab");
  memory.forget(memory.bytes());
  CHECK(memory.text() == "abc");
  const MappedFile empty(folder.write("e", ""));
  CHECK(empty.bytes().empty());
  CHECK_NOTHROW(check_mapped_files());
}

TEST_CASE("forgotten parts are read again") {
  const TempDir folder;
  const MappedFile file(folder.write("x", std::string(100'000, '\1')));
  CHECK(sum_of(file.bytes()) == 100'000);
  file.forget(file.bytes().subspan(5000, 80'000));
  file.forget(file.bytes().subspan(99'999, 1));
  CHECK(sum_of(file.bytes()) == 100'000);
}

TEST_CASE("kind 135: a file that is truncated while mapped reads as zeros and fails the check") {
  const TempDir folder;
  const auto path = folder.write("cut\n", std::string(100'000, '\1'));
  const MappedFile file(path);
  const MappedFile other(folder.write("whole", std::string(100'000, '\1')));
  REQUIRE(truncate(path.c_str(), 10) == 0);
  std::vector<std::thread> readers;  // each reader may fault
  for (int t = 0; t < 4; ++t) readers.emplace_back([&] { CHECK(sum_of(file.bytes().subspan(4096)) == 0); });
  for (std::thread& reader : readers) reader.join();
  CHECK(sum_of(other.bytes()) == 100'000);
  CHECK_NOTHROW(other.check());
  check_refusal([&] { file.check(); }, Status::bad_input, {"cut\\x0a: changed while it was read; run again"});
  check_refusal([] { check_mapped_files(); }, Status::bad_input, {"cut\\x0a"});
}

TEST_CASE("a file that was changed, or whose pages cannot be read, fails the check") {
  const TempDir folder;
  const auto path = folder.write("x", std::string(100'000, '\1'));
  const auto before = std::filesystem::last_write_time(path);
  {
    const MappedFile file(path);
    REQUIRE(truncate(path.c_str(), 100'001) == 0);
    std::filesystem::last_write_time(path, before);
    check_refusal([&] { file.check(); }, Status::bad_input, {"x: changed while it was read; run again"});
  }
  {
    const MappedFile file(path);
    std::filesystem::last_write_time(path, before + std::chrono::nanoseconds(1));  // the size is the same
    check_refusal([&] { file.check(); }, Status::bad_input, {"x: changed while it was read; run again"});
    check_refusal([] { check_mapped_files(); }, Status::bad_input, {"x: changed while it was read"});
  }
  std::filesystem::last_write_time(path, before);
  const MappedFile file(path);
  REQUIRE(truncate(path.c_str(), 0) == 0);
  CHECK(sum_of(file.bytes()) == 0);
  REQUIRE(truncate(path.c_str(), 100'001) == 0);
  std::filesystem::last_write_time(path, before);
  check_refusal([&] { file.check(); }, Status::environment, {"cannot read"});
}

TEST_CASE("a file that is replaced has another version") {
  const TempDir folder;
  const auto path = folder.write("x", "abc");
  const FileVersion version = version_of_file(path);
  CHECK_NOTHROW(require_version(path, version));
  const auto other = folder.write("y", "abd");
  std::filesystem::last_write_time(other, std::filesystem::last_write_time(path));
  std::filesystem::rename(other, path);
  check_refusal([&] { require_version(path, version); }, Status::bad_input,
                {"x: changed while it was read; run again"});
  std::filesystem::remove(path);
  check_refusal([&] { require_version(path, version); }, Status::environment, {"No such file"});
}

TEST_CASE("a closed mapping is not checked and frees its guard") {
  const TempDir folder;
  const auto path = folder.write("x", std::string(10'000, '\1'));
  for (int i = 0; i < 5000; ++i) {
    const MappedFile file(path);
    REQUIRE(file.bytes().size() == 10'000);
  }
  { const MappedFile file(path); }
  REQUIRE(truncate(path.c_str(), 0) == 0);
  CHECK_NOTHROW(check_mapped_files());
}

TEST_CASE("SIGBUS outside a mapped file still ends the process") {
  const TempDir folder;
  const MappedFile guarded(folder.write("x", "abc"));
  const auto path = folder.write("y", std::string(10'000, '\1'));
  for (const bool fault : {true, false}) {
    CAPTURE(fault);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      // A sanitizer prints a report here.
      FILE* const quiet = std::freopen("/dev/null", "w", stderr);
      if (fault && quiet != nullptr) {
        const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        const auto* bytes =
            static_cast<const volatile char*>(mmap(nullptr, 10'000, PROT_READ, MAP_PRIVATE, descriptor, 0));
        if (truncate(path.c_str(), 0) == 0) _exit(bytes[5000]);
      }
      raise(SIGBUS);
      _exit(0);
    }
    int state = 0;
    REQUIRE(waitpid(child, &state, 0) == child);
    CHECK_FALSE((WIFEXITED(state) && WEXITSTATUS(state) == 0));
  }
}

TEST_CASE("a path that is not a regular file is refused without blocking") {
  const TempDir folder;
  mkfifo((folder.path() / "fifo").c_str(), 0600);
  struct Row {
    std::filesystem::path path;
    std::string_view part;
  };
  for (const Row& row :
       {Row{folder.path() / "fifo", "is a FIFO"}, Row{folder.path(), "is a directory"},
        Row{"/dev/zero", "is a device"}, Row{"/dev/null", "is a device"},
        Row{folder.path() / std::string(300, 'n'), "File name too long"},
        Row{folder.path() / "gone", "No such file"}, Row{folder.path() / "gone/x", "No such file"}}) {
    CAPTURE(row.part);
    for (const Status absent : {Status::environment, Status::bad_input}) {
      check_refusal([&] { (void)MappedFile(row.path, absent); }, absent, {row.part});
      check_refusal([&] { (void)read_file(row.path, 100, absent); }, absent, {row.part});
    }
  }
}
