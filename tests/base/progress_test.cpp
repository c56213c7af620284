#include "base/progress.hpp"

#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "base/warnings.hpp"
#include "support/run.hpp"

using namespace attnctl;

TEST_CASE("the line of a progress bar") {
  CHECK(progress_line("layers", 0, 12, 3, 79) == "layers  [----------------------------------------]  0/12");
  CHECK(progress_line("layers", 6, 12, 3, 79) ==
        "layers  [####################--------------------]  6/12  2.0/s  0:03 left");
  CHECK(progress_line("layers", 1, 100, 90, 49) == "layers  [-----------]  1/100  0.0/s  2:28:30 left");
  CHECK(progress_line("layers", 12, 12, 3, 79).ends_with("12/12  4.0/s  0:00 left"));
  CHECK(progress_line("bytes", 5000, 10000, 2, 79).ends_with("5000/10000  2500/s  0:02 left"));
  CHECK(progress_line("none", 3, 12, 0, 79).ends_with("3/12  0:00 left"));
  CHECK(progress_line("layers", 15, 12, 3, 79).ends_with("12/12  4.0/s  0:00 left"));
  CHECK(progress_line("layers", 6, 12, 3, 20) == "layers    6/12  2.0/");
  CHECK(progress_line("none", 0, 0, 0, 79).ends_with("0/0"));
}

TEST_CASE("a progress bar is drawn and cleared if requested, but not in pipes or with --quiet") {
  const std::string program = ATTNCTL_WRITE_FILE;
  const test::RunResult always = test::run_shell(program + " --progress always");
  CHECK(always.status == 0);
  CHECK(always.err.starts_with("\r\x1b[Kwork  [---"));
  CHECK(always.err.ends_with("\r\x1b[K"));
  for (const char* mode : {"auto", "never", "quiet"}) {
    CAPTURE(mode);
    CHECK(test::run_shell(program + " --progress " + mode).err.empty());
  }
}

using namespace attnctl;

TEST_CASE("warnings are counted by code and keep the order and message of the first occurrence") {
  Warnings warnings;
  CHECK(warnings.list().empty());
  warnings.add("b", "first b");
  warnings.add("a", "first a", 5);
  warnings.add("b", "second b", 2);
  const auto list = warnings.list();
  REQUIRE(list.size() == 2);
  CHECK(list[0].code == "b");
  CHECK(list[0].message == "first b");
  CHECK(list[0].count == 3);
  CHECK(list[1].code == "a");
  CHECK(list[1].count == 5);
}

TEST_CASE("warnings from several threads are all counted") {
  Warnings warnings;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) warnings.add("code", "message");
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(warnings.list().size() == 1);
  CHECK(warnings.list()[0].count == 4000);
}
