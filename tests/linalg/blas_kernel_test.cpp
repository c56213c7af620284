#include "linalg/blas/blas_kernel.hpp"

#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "linalg/blas/blas_choice.hpp"
#include "support/run.hpp"

using attnctl::linalg::choose_blas_kernel;
using attnctl::linalg::CpuFeatures;

namespace {

constexpr CpuFeatures old_cpu{};
constexpr CpuFeatures sandy_bridge{.avx = true};
constexpr CpuFeatures bulldozer{.avx = true, .fma4 = true};
constexpr CpuFeatures zen_3{.avx = true, .avx2_fma = true};
constexpr CpuFeatures skylake_x{.avx = true, .avx2_fma = true, .avx512 = true};
constexpr CpuFeatures emerald_rapids{.avx = true, .avx2_fma = true, .avx512 = true, .avx512_bf16 = true};

}  // namespace

TEST_CASE("the kernel of OpenBLAS is chosen by what the CPU has") {
  struct Row {
    std::string_view kernel;
    std::string_view user;
    CpuFeatures cpu;
    std::string_view want;     // to run again with; empty: stay
    std::string_view warning;  // a part of it; empty: none
  };
  for (const Row& row : {
           // Unknown to the library: it fell back to SSE3.
           Row{"Prescott", "", emerald_rapids, "SkylakeX", ""},
           Row{"Prescott", "", skylake_x, "SkylakeX", ""},
           Row{"Prescott", "", zen_3, "Haswell", ""},
           Row{"Nehalem", "", sandy_bridge, "Sandybridge", ""},
           Row{"Haswell", "", skylake_x, "SkylakeX", ""},
           Row{"Sandybridge", "", zen_3, "Haswell", ""},
           // As good as it gets.
           Row{"Prescott", "", old_cpu, "", ""},
           Row{"Zen", "", zen_3, "", ""},
           Row{"Haswell", "", zen_3, "", ""},
           Row{"Cooperlake", "", emerald_rapids, "", ""},
           Row{"SkylakeX", "", emerald_rapids, "", ""},
           Row{"Bulldozer", "", bulldozer, "", ""},
           Row{"neoversen1", "", old_cpu, "", ""},
           // The user's word stays, a slow one too.
           Row{"Prescott", "Prescott", emerald_rapids, "", ""},
           Row{"Haswell", "haswell", skylake_x, "", ""},
           Row{"SkylakeX", "SKYLAKEX", skylake_x, "", ""},
           // Unless the CPU would stop at the first instruction.
           Row{"SkylakeX", "SkylakeX", zen_3, "Haswell", "lacks"},
           Row{"Cooperlake", "Cooperlake", skylake_x, "SkylakeX", "lacks"},
           Row{"Haswell", "Haswell", sandy_bridge, "Sandybridge", "lacks"},
           Row{"Zen", "zen", old_cpu, "Prescott", "lacks"},
           Row{"Bulldozer", "Bulldozer", zen_3, "Haswell", "lacks"},
           // Or it is no kernel at all.
           Row{"Zen", "Turbo\x1b", zen_3, "", "OPENBLAS_CORETYPE=Turbo\\x1b is no kernel"},
       }) {
    CAPTURE(row.kernel);
    CAPTURE(row.user);
    const auto choice = choose_blas_kernel({row.kernel, row.user}, row.cpu);
    CHECK(choice.kernel == row.want);
    CHECK(choice.warning.has_value() == !row.warning.empty());
    if (choice.warning) CHECK(choice.warning->find(row.warning) != std::string::npos);
  }
}

TEST_CASE("the library and its kernel have names") {
  CHECK(attnctl::blas_name().starts_with("OpenBLAS "));
  CHECK(attnctl::blas_name().find(' ', 9) == std::string::npos);
  CHECK_FALSE(attnctl::blas_kernel().empty());
}

TEST_CASE("the second execution works as the first and warns of what was ignored") {
  const auto first = attnctl::test::run_attnctl({"--version"});
  CHECK(first.status == 0);
  struct Row {
    const char* user;  // as the first execution hands it on; empty: not set
    std::string_view warning;
  };
  for (const Row& row : {Row{"", ""}, Row{"Turbo", "OPENBLAS_CORETYPE=Turbo is no kernel"}}) {
    CAPTURE(row.user);
    const auto second =
        attnctl::test::run_attnctl({"--version"}, {.environment = {{"ATTNCTL_BLAS_GUARD", row.user}}});
    CHECK(second.status == 0);
    CHECK(second.out.starts_with("attnctl "));
    CHECK(second.err.empty() == row.warning.empty());
    CHECK(second.err.find(row.warning) != std::string::npos);
  }
}
