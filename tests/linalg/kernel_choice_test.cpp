#include "linalg/blas/kernel_choice.hpp"

#include <string_view>

#include <doctest/doctest.h>

namespace attnctl::linalg {
namespace {

constexpr CpuFeatures old_cpu{};
constexpr CpuFeatures sandy_bridge{.avx = true};
constexpr CpuFeatures bulldozer{.avx = true, .fma4 = true};
constexpr CpuFeatures zen_3{.avx = true, .avx2_fma = true};
constexpr CpuFeatures skylake_x{.avx = true, .avx2_fma = true, .avx512 = true};
constexpr CpuFeatures emerald_rapids{.avx = true, .avx2_fma = true, .avx512 = true, .avx512_bf16 = true};

TEST_CASE("the widest kernel of OpenBLAS for a CPU runs on it and is not narrow") {
  struct Row {
    CpuFeatures cpu;
    std::string_view kernel;
  };
  for (const Row& row :
       {Row{old_cpu, "Prescott"}, Row{sandy_bridge, "Sandybridge"}, Row{bulldozer, "Sandybridge"},
        Row{zen_3, "Haswell"}, Row{skylake_x, "SkylakeX"}, Row{emerald_rapids, "SkylakeX"}}) {
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
           Row{"Prescott", emerald_rapids, true},
           Row{"Prescott", skylake_x, true},
           Row{"Prescott", zen_3, true},
           Row{"Nehalem", sandy_bridge, true},
           Row{"Haswell", skylake_x, true},
           Row{"Sandybridge", zen_3, true},
           // The kernel is already the widest for the CPU.
           Row{"Prescott", old_cpu, false},
           Row{"Zen", zen_3, false},
           Row{"Haswell", zen_3, false},
           Row{"Cooperlake", emerald_rapids, false},
           Row{"SkylakeX", emerald_rapids, false},
           Row{"Bulldozer", bulldozer, false},
           // Names of other architectures and of newer versions of OpenBLAS.
           Row{"neoversen1", old_cpu, false},
           Row{"Turbo", emerald_rapids, false},
       }) {
    CAPTURE(row.kernel);
    CHECK(is_narrow(row.kernel, row.cpu) == row.narrow);
  }
}

TEST_CASE("kernels that need instructions that the CPU lacks are known, whatever the case of their names") {
  struct Row {
    std::string_view kernel;
    CpuFeatures cpu;
    bool runs;
  };
  for (const Row& row : {
           Row{"SkylakeX", zen_3, false},
           Row{"skylakex", zen_3, false},
           Row{"Cooperlake", skylake_x, false},
           Row{"Haswell", sandy_bridge, false},
           Row{"zen", old_cpu, false},
           Row{"Bulldozer", zen_3, false},
           Row{"Prescott", emerald_rapids, true},
           Row{"haswell", skylake_x, true},
           Row{"SKYLAKEX", skylake_x, true},
           Row{"Turbo", old_cpu, true},
           Row{"", old_cpu, true},
       }) {
    CAPTURE(row.kernel);
    CHECK(runs_on(row.kernel, row.cpu) == row.runs);
  }
}

}  // namespace
}  // namespace attnctl::linalg
