#include "base/progress.hpp"

#include <doctest/doctest.h>

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
