#include "base/progress.hpp"

#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "support/run.hpp"

using namespace attnctl;

TEST_CASE("the line of a progress bar") {
  const ProgressWork layers{"forward", 12, "layer"};
  CHECK(progress_line(layers, 0, 3, 79) ==
        "forward  [----------------------------------------]  0 %  0/12 layers");
  CHECK(progress_line(layers, 6, 3, 79) ==
        "forward  [################-----------------]  50 %  6/12 layers  2/s  0:03 left");
  CHECK(progress_line(layers, 6, 3, 20) == "forward  50 %  6/12 ");
  CHECK(progress_line(layers, 3, 0, 79).ends_with("25 %  3/12 layers  0:00 left"));
  CHECK(progress_line({"study", 100, "block"}, 1, 90, 61) ==
        "study  [----------]  1 %  1/100 blocks  0.011/s  2:28:30 left");
  CHECK(progress_line({"tokenize", 10000, "byte"}, 5000, 2, 79)
            .ends_with("50 %  5000/10000 bytes  2500/s  0:02 left"));
  CHECK(progress_line({"float64", 1, "input"}, 0, 1, 79).ends_with("]  0 %  0/1 input"));
}

TEST_CASE("a progress bar shows less than 100 %, and only a count if the total is unknown") {
  for (const std::size_t done : {999UL, 1000UL, 1500UL}) {
    CAPTURE(done);
    CHECK(progress_line({"study", 1000, "byte"}, done, 4, 79).find("]  99 %  ") != std::string::npos);
  }
  CHECK(progress_line({"study", 1000, "byte"}, 1500, 4, 79).ends_with("1000/1000 bytes  250/s  0:00 left"));
  CHECK(progress_line({"study", 0, "byte"}, 1500, 3, 79) == "study  1500 bytes  500/s");
  CHECK(progress_line({"study", 0, "byte"}, 0, 3, 79) == "study  0 bytes");
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
