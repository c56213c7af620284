#include "base/files/output_file.hpp"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <string>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#include <vector>

#include <climits>
#include <doctest/doctest.h>

#include "base/error.hpp"
#include "support/fault.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;
namespace fs = std::filesystem;

namespace {

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

void write_whole(const fs::path& path, std::string_view text) {
  OutputFile out(path);
  out.write(text);
  out.commit();
}

Status status_of(const fs::path& path) {
  try {
    write_whole(path, "new");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.status();
  }
  return Status::ok;
}

}  // namespace

TEST_CASE("an output appears at commit") {
  const test::TempDir folder;
  const fs::path path = folder.write("out.txt", "old");
  {
    OutputFile out(path);
    out.write("new");
    CHECK(test::slurp(path) == "old");
  }
  CHECK(test::slurp(path) == "old");
  CHECK(files_in(folder.path()) == 1);
  write_whole(path, "new");
  CHECK(test::slurp(path) == "new");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("large and scattered writes go to their offsets") {
  const test::TempDir folder;
  const fs::path path = folder.path() / "out.bin";
  std::string want(300000, 'a');
  {
    OutputFile out(path);
    CHECK(out.seekable());
    out.write(std::string_view(want).substr(0, 10));
    out.write(std::string_view(want).substr(10));
    CHECK(out.position() == want.size());
    out.write_at(want.size() + 3, std::as_bytes(std::span("xyz", 3)));
    out.write("bcd");
    out.seek(2);
    CHECK(out.position() == 2);
    out.write("-");
    out.commit();
  }
  want[2] = '-';
  CHECK(test::slurp(path) == want + "bcdxyz");
}

TEST_CASE("a replaced file keeps its mode, and symlinks stay symlinks") {
  const test::TempDir folder;
  const fs::path target = folder.write("deep/target", "old");
  fs::permissions(target, fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
  fs::create_symlink("deep/target", folder.path() / "link");
  fs::create_symlink("link", folder.path() / "second");
  write_whole(folder.path() / "second", "new");
  CHECK(test::slurp(target) == "new");
  CHECK(fs::is_symlink(folder.path() / "second"));
  CHECK(fs::is_symlink(folder.path() / "link"));
  CHECK((fs::status(target).permissions() & fs::perms::all) ==
        (fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read));
  CHECK(files_in(folder.path() / "deep") == 1);
}

TEST_CASE("a dangling symlink creates its target, a cycle of symlinks is an error") {
  const test::TempDir folder;
  fs::create_symlink("later", folder.path() / "link");
  write_whole(folder.path() / "link", "new");
  CHECK(test::slurp(folder.path() / "later") == "new");
  fs::create_symlink("b", folder.path() / "a");
  fs::create_symlink("a", folder.path() / "b");
  CHECK(status_of(folder.path() / "a") == Status::environment);
}

TEST_CASE("the umask applies to a new file") {
  const test::TempDir folder;
  const mode_t before = ::umask(027);
  write_whole(folder.path() / "out", "x");
  ::umask(before);
  CHECK((fs::status(folder.path() / "out").permissions() & fs::perms::all) == static_cast<fs::perms>(0640));
}

TEST_CASE("paths that cannot be written are environment errors and leave no file") {
  const test::TempDir folder;
  folder.write("file", "old");
  fs::create_directory(folder.path() / "dir");
  const std::string longest(300, 'n');
  for (const fs::path& path : {folder.path() / "dir", folder.path() / "none/out", folder.path() / "file/out",
                               folder.path() / "new/", folder.path() / longest, fs::path("/dev/full"),
                               fs::path("/proc/attnctl-output"), fs::path("/dev/fd/987"), fs::path("")}) {
    CAPTURE(path);
    CHECK(status_of(path) == Status::environment);
  }
  CHECK(files_in(folder.path()) == 2);
  CHECK(test::slurp(folder.path() / "file") == "old");
}

TEST_CASE("a file name may have the maximum length") {
  const test::TempDir folder;
  const std::string name(255, 'n');
  write_whole(folder.path() / name, "x");
  CHECK(test::slurp(folder.path() / name) == "x");
}

TEST_CASE("a device is written in place and is not seekable") {
  OutputFile out("/dev/null");
  CHECK_FALSE(out.seekable());
  CHECK_THROWS_AS(out.seek(0), Error);
  out.write("gone");
  out.commit();
}

TEST_CASE("a pipe receives each line as soon as it is complete") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_NONBLOCK) == 0);
  OutputFile out("/dev/fd/" + std::to_string(ends[1]));
  out.write_whole_lines();
  const auto waiting = [&] {
    std::string text(std::size_t{1} << 17U, '\0');
    const ssize_t size = ::read(ends[0], text.data(), text.size());
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return text;
  };
  const std::string longest(PIPE_BUF + 10, 'x');
  struct Row {
    std::string text, want;
  };
  for (const Row& row :
       {Row{"a", ""}, Row{"b\nc", "ab\n"}, Row{"\n", "c\n"}, Row{"", ""}, Row{"d\n\ne\nf", "d\n\ne\n"},
        Row{longest, ""}, Row{"\ng\n", "f" + longest + "\ng\n"},
        Row{"\n" + longest + "\nh", "\n" + longest + "\n"}}) {
    out.write(row.text);
    CHECK(waiting() == row.want);
  }
  CHECK(out.position() > 2 * longest.size());
  out.commit();
  CHECK(waiting() == "h");
  ::close(ends[0]);
  ::close(ends[1]);
}

// Tests outputs when system calls fail (kinds 127 to 133 and 136 to 138 of bad inputs). A test program writes
// the output, and a preloaded library makes the given calls fail.

using namespace attnctl;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kSize = 300000;

struct Outcome {
  test::RunResult result;
  std::string content;    // content of the output afterwards
  std::size_t files = 0;  // number of files in its folder
};

/// Replaces a file with the content "old" while a fault is active.
Outcome replace_with(const std::string& fault, std::size_t first = kSize) {
  const test::TempDir folder;
  const fs::path path = folder.write("out", "old");
  const std::string command = std::string(ATTNCTL_WRITE_FILE) + " " + path.string() + " " +
                              std::to_string(kSize) + " " + std::to_string(first);
  Outcome outcome;
  outcome.result =
      test::run_shell("exec " + command, {"", test::with_fault(fault, folder.path().string()), "/"});
  outcome.content = test::slurp(path);
  outcome.files = static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()));
  return outcome;
}

/// Returns whether the file system of the temporary folders supports files without a name.
bool has_unnamed_files() {
  const test::TempDir folder;
  const int descriptor = ::open(folder.path().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
  return descriptor >= 0 && ::close(descriptor) == 0;
}

std::ptrdiff_t lines(const std::string& text) {
  return std::ranges::count(text, '\n');
}

}  // namespace

TEST_CASE("a failed write, fsync, close or rename keeps the old file and prints one line") {
  struct Row {
    const char* fault;
    const char* message;
  };
  for (const Row& row : {
           Row{"write:ENOSPC:0", "No space left on device"},
           Row{"write:ENOSPC:1", "No space left on device"},
           Row{"write:ENOSPC:4096", "No space left on device"},
           Row{"write:ENOSPC:65536", "No space left on device"},
           Row{"write:ENOSPC:299999", "No space left on device"},
           Row{"write:EDQUOT:1000", "quota"},
           Row{"write:EIO:1000", "Input/output error"},
           Row{"write:EFBIG:1000", "File too large"},
           Row{"fsync:EIO", "Input/output error"},
           Row{"fsync:ENOSPC", "No space left on device"},
           Row{"close:EIO", "Input/output error"},
           Row{"close:EDQUOT", "quota"},
           Row{"rename:EACCES", "Permission denied"},
           Row{"rename:EXDEV", "cross-device"},
           Row{"create:EROFS", "Read-only file system"},
           Row{"create:EACCES", "Permission denied"},
       }) {
    for (const std::size_t first : {kSize, std::size_t{1000}}) {
      CAPTURE(row.fault);
      const Outcome outcome = replace_with(row.fault, first);
      CHECK(outcome.result.status == 4);
      CHECK(lines(outcome.result.err) == 1);
      CHECK(outcome.result.err.find(row.message) != std::string::npos);
      CHECK(outcome.result.err.find("/out: cannot ") != std::string::npos);
      CHECK(outcome.content == "old");
      CHECK(outcome.files == 1);
    }
  }
}

TEST_CASE("interrupted and partial calls are continued") {
  for (const char* fault : {"write:EINTR", "write:SHORT", "fsync:EINTR", "close:EINTR"}) {
    CAPTURE(fault);
    const Outcome outcome = replace_with(fault);
    CHECK(outcome.result.err.empty());
    CHECK(outcome.result.status == 0);
    CHECK((outcome.content == std::string(kSize, 'x')));
    CHECK(outcome.files == 1);
  }
}

TEST_CASE("a kill at any point leaves the old file complete") {
  for (const char* fault :
       {"write:KILL:0", "write:KILL:70000", "write:KILL:299999", "fsync:KILL", "close:KILL", "rename:KILL"}) {
    CAPTURE(fault);
    const Outcome outcome = replace_with(fault);
    CHECK(outcome.result.status == 128 + 9);
    CHECK(outcome.content == "old");
    // From close on, the new file has a name.
    const bool named = fault == std::string("close:KILL") || fault == std::string("rename:KILL");
    if (has_unnamed_files()) CHECK(outcome.files == (named ? 2 : 1));
  }
}

TEST_CASE("without files that have no name, an output has a hidden name until it is renamed") {
  const Outcome outcome = replace_with("tmpfile:EINVAL");
  CHECK(outcome.result.status == 0);
  CHECK((outcome.content == std::string(kSize, 'x')));
  CHECK(outcome.files == 1);
}

TEST_CASE("a prepared output replaces the old file at commit") {
  const test::TempDir folder;
  const fs::path path = folder.write("out.txt", "old");
  for (const bool commit : {false, true}) {
    OutputFile out(path);
    out.write("new");
    out.prepare();
    CHECK(test::slurp(path) == "old");
    if (commit) out.commit();
  }
  CHECK(test::slurp(path) == "new");
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("an interrupt exits with 130 and keeps the old file") {
  for (const char* fault : {"write:INT:0", "write:INT:70000", "write:TERM:1000", "fsync:INT", "close:INT"}) {
    CAPTURE(fault);
    const Outcome outcome = replace_with(fault, 1000);
    CHECK(outcome.result.status == 130);
    CHECK(outcome.result.err == "attnctl: interrupted\n");
    CHECK(outcome.content == "old");
    CHECK(outcome.files == 1);
  }
}

TEST_CASE("an interrupt after the rename has no effect") {
  const Outcome outcome = replace_with("rename:INT");
  CHECK(outcome.result.status == 0);
  CHECK((outcome.content == std::string(kSize, 'x')));
}

TEST_CASE("a full device and a file over the size limit are errors") {
  const std::string program = ATTNCTL_WRITE_FILE;
  for (const char* to :
       {"/dev/full 10", "/dev/full 1000000", "- 10 > /dev/full", "/dev/stdout 10 > /dev/full"}) {
    CAPTURE(to);
    const test::RunResult result = test::run_shell(program + " " + to);
    CHECK(result.status == 4);
    CHECK(lines(result.err) == 1);
    CHECK(result.err.find("No space left on device") != std::string::npos);
  }
  const test::TempDir folder;
  const std::string path = folder.path().string() + "/out";
  const test::RunResult result = test::run_shell("ulimit -f 64; " + program + " " + path + " 10000000");
  CHECK(result.status == 4);
  CHECK(result.err.find("File too large") != std::string::npos);
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("a reader that closes its pipe is not an error") {
  const test::TempDir folder;
  const std::string status = folder.path().string() + "/status";
  for (const char* to : {"-", "/dev/stdout", "/dev/fd/1"}) {
    test::RunOptions options;
    options.environment = {{"program", ATTNCTL_WRITE_FILE}, {"to", to}, {"status", status}};
    const test::RunResult result =
        test::run_shell("{ $program $to 10000000; echo $? > $status; } | head -c 5", options);
    CHECK(result.out == "xxxxx");
    CHECK(result.err.empty());
    CHECK(test::slurp(status) == "0\n");
  }
}

TEST_CASE("standard output redirected to a file is written in place") {
  const test::TempDir folder;
  const std::string path = folder.write("out", "").string();
  test::RunOptions options;
  options.environment = {{"program", ATTNCTL_WRITE_FILE}, {"out", path}};
  const test::RunResult result =
      test::run_shell("{ echo a; $program /dev/stdout 3; $program - 2; echo; } > $out", options);
  CHECK(result.status == 0);
  CHECK(test::slurp(path) == "a\nxxxxx\n");
}

TEST_CASE("a closed standard output is an error") {
  const test::RunResult result = test::run_shell(std::string(ATTNCTL_WRITE_FILE) + " - 10 >&-");
  CHECK(result.status == 4);
  CHECK(lines(result.err) == 1);
}
