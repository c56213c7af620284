#include "base/files/output_file.hpp"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <string>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <climits>
#include <doctest/doctest.h>

#include "base/error.hpp"
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

TEST_CASE("a dangling symlink creates its target; a cycle of symlinks is an error") {
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
