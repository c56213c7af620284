#include "linalg/blas.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "linalg/decompositions.hpp"
#include "linalg/gemm.hpp"
#include "support/fault.hpp"
#include "support/long_way.hpp"
#include "support/run.hpp"
#include "support/sanitized.hpp"

namespace attnctl::linalg {
namespace {

using test::run_attnctl;
using test::RunResult;

std::ptrdiff_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST_CASE("BLAS and LAPACK start no threads, called from any thread") {
  long_way::Normal normal(3);
  const OwnedMatrix<double> a = normal.matrix(400, 300);
  const OwnedMatrix<double> b = normal.matrix(400, 300);
  Pool pool(3);
  const std::ptrdiff_t before = threads_of_this_process();
  std::vector<std::ptrdiff_t> during(12);
  pool.run(during.size(), [&](std::size_t task, std::size_t) {
    OwnedMatrix<double> product(400, 400);
    gemm_nt(a.view(), b.view(), product.view());
    OwnedMatrix<double> left = a;
    OwnedMatrix<double> right = b;
    (void)svd_of_product(left.view().row_range(0, 64), right.view().row_range(0, 64), 64);
    (void)singular_values(std::as_const(product).view().col_range(0, 100));
    during[task] = threads_of_this_process();
  });
  for (const std::ptrdiff_t threads : during) CHECK(threads == before);
}

TEST_CASE("the library and its kernel have names") {
  CHECK(blas_name().starts_with("OpenBLAS "));
  CHECK(blas_name().find(' ', 9) == std::string::npos);
  CHECK(blas_kernel() != "unknown");
  CHECK_FALSE(blas_warning().has_value());
}

TEST_CASE("OPENBLAS_CORETYPE chooses the kernel, a name that cannot run is reported") {
  struct Row {
    const char* setting;
    std::string_view kernel;   // expected kernel; empty: any
    std::string_view warning;  // expected part of the warning; empty: no warning
  };
  std::vector<Row> rows{{"prescott", "Prescott", ""},
                        {"Turbo\x1b", "", "OPENBLAS_CORETYPE=Turbo\\x1b is not a kernel"}};
  const linalg::CpuFeatures cpu = linalg::CpuFeatures::of_this_cpu();
  if (!cpu.avx512_bf16) rows.push_back({"Cooperlake", "", "lacks"});
  if (!cpu.fma4) rows.push_back({"Bulldozer", "", "lacks"});
  const std::string automatic =
      run_attnctl({"--version"}, {.environment = {{"OPENBLAS_CORETYPE", ""}}}).out;  // without a choice
  for (const Row& row : rows) {
    CAPTURE(row.setting);
    const RunResult result =
        run_attnctl({"--version"}, {.environment = {{"OPENBLAS_CORETYPE", row.setting}}});
    CHECK(result.status == 0);
    CHECK_MESSAGE(result.out.find(fmt::format("kernel {}", row.kernel)) != std::string::npos, result.out);
    if (row.warning == "lacks") CHECK(result.out == automatic);
    CHECK(result.err.empty() == row.warning.empty());
    CHECK(result.err.find(row.warning) != std::string::npos);
  }
}

TEST_CASE("OpenBLAS is loaded again with a wide kernel if it does not know the CPU") {
  const std::string widest = linalg::widest_kernel(linalg::CpuFeatures::of_this_cpu());
  std::map<std::string, std::string> environment = test::with_fault("unknown_cpu");
  environment["OPENBLAS_CORETYPE"] = "";             // the user's choice would be kept
  environment["ASAN_OPTIONS"] += ":detect_leaks=0";  // libgomp loses 8 bytes when OpenBLAS is unloaded
  const RunResult result = run_attnctl({"--version"}, {.environment = environment});
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK_MESSAGE(result.out.find("kernel " + widest + ",") != std::string::npos, result.out);
}

TEST_CASE("under a memory limit of the process a command works or ends with status 5, and never hangs") {
  if (test::kSanitized) {
    MESSAGE("skipped: a sanitizer reserves its own address space");
    return;
  }
  for (const char* const limit : {"-d 60000", "-d 150000", "-d 200000", "-d 300000", "-d 400000", "-v 150000",
                                  "-v 200000", "-v 300000", "-v 400000"}) {
    for (const char* const command :
         {"--version", "analyze data/tiny-bert --text Cats. --threads 2 --format json"}) {
      CAPTURE(limit);
      CAPTURE(command);
      const RunResult result =
          test::run_shell(fmt::format("ulimit {}; timeout -s KILL 60 attnctl {}", limit, command));
      CHECK_MESSAGE((result.status == 0 || result.status == 5), result.err);
      CHECK(std::ranges::count(result.err, '\n') == (result.status == 5 ? 1 : 0));
    }
  }
  CHECK(test::run_shell("ulimit -d 200000; attnctl --version").status == 0);
  CHECK(
      test::run_shell("ulimit -d 60000; attnctl tokenize data/tiny-bert --text Cats. --format text").status ==
      0);
}

}  // namespace
}  // namespace attnctl::linalg

namespace attnctl::linalg {
namespace {

constexpr CpuFeatures kOldCpu{};
constexpr CpuFeatures kSandyBridge{.avx = true};
constexpr CpuFeatures kBulldozer{.avx = true, .fma4 = true};
constexpr CpuFeatures kZen3{.avx = true, .avx2_fma = true};
constexpr CpuFeatures kSkylakeX{.avx = true, .avx2_fma = true, .avx512 = true};
constexpr CpuFeatures kEmeraldRapids{.avx = true, .avx2_fma = true, .avx512 = true, .avx512_bf16 = true};

TEST_CASE("the widest kernel of OpenBLAS for a CPU runs on it and is not narrow") {
  struct Row {
    CpuFeatures cpu;
    std::string_view kernel;
  };
  for (const Row& row :
       {Row{kOldCpu, "Prescott"}, Row{kSandyBridge, "Sandybridge"}, Row{kBulldozer, "Sandybridge"},
        Row{kZen3, "Haswell"}, Row{kSkylakeX, "SkylakeX"}, Row{kEmeraldRapids, "SkylakeX"}}) {
    CAPTURE(row.kernel);
    CHECK(widest_kernel(row.cpu) == row.kernel);
    CHECK(runs_on(row.kernel, row.cpu));
    CHECK_FALSE(is_narrow(row.kernel, row.cpu));
  }
}

TEST_CASE("kernels that use narrower vectors than the CPU has are known") {
  struct Row {
    std::string_view kernel;
    CpuFeatures cpu;
    bool narrow;
  };
  for (const Row& row : {
           // OpenBLAS does not know the CPU and falls back to SSE3.
           Row{"Prescott", kEmeraldRapids, true},
           Row{"Prescott", kSkylakeX, true},
           Row{"Prescott", kZen3, true},
           Row{"Nehalem", kSandyBridge, true},
           Row{"Haswell", kSkylakeX, true},
           Row{"Sandybridge", kZen3, true},
           // The kernel is already the widest for the CPU.
           Row{"Prescott", kOldCpu, false},
           Row{"Zen", kZen3, false},
           Row{"Haswell", kZen3, false},
           Row{"Cooperlake", kEmeraldRapids, false},
           Row{"SkylakeX", kEmeraldRapids, false},
           Row{"Bulldozer", kBulldozer, false},
           // Names of other architectures and of newer versions of OpenBLAS.
           Row{"neoversen1", kOldCpu, false},
           Row{"Turbo", kEmeraldRapids, false},
       }) {
    CAPTURE(row.kernel);
    CHECK(is_narrow(row.kernel, row.cpu) == row.narrow);
  }
}

TEST_CASE("kernels that need instructions that the CPU lacks are known by name, in any case") {
  struct Row {
    std::string_view kernel;
    CpuFeatures cpu;
    bool runs;
  };
  for (const Row& row : {
           Row{"SkylakeX", kZen3, false},
           Row{"skylakex", kZen3, false},
           Row{"Cooperlake", kSkylakeX, false},
           Row{"Haswell", kSandyBridge, false},
           Row{"zen", kOldCpu, false},
           Row{"Bulldozer", kZen3, false},
           Row{"Prescott", kEmeraldRapids, true},
           Row{"haswell", kSkylakeX, true},
           Row{"SKYLAKEX", kSkylakeX, true},
           Row{"Turbo", kOldCpu, true},
           Row{"", kOldCpu, true},
       }) {
    CAPTURE(row.kernel);
    CHECK(runs_on(row.kernel, row.cpu) == row.runs);
  }
}

}  // namespace
}  // namespace attnctl::linalg
