#include "linalg/blas/kernel_choice.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace attnctl::linalg {
namespace {

enum class Vectors { sse, avx, avx2_fma, avx512 };

struct BlasKernel {
  std::string_view name;
  Vectors vectors;
  bool CpuFeatures::*needs = nullptr;
};

// The names of dynamic.c in OpenBLAS. widest_kernel never returns one of the SSE kernels except Prescott, so
// the table does not say which SSE version they need.
constexpr std::array kBlasKernels{
    BlasKernel{"Prescott", Vectors::sse},
    BlasKernel{"Core2", Vectors::sse},
    BlasKernel{"Penryn", Vectors::sse},
    BlasKernel{"Dunnington", Vectors::sse},
    BlasKernel{"Nehalem", Vectors::sse},
    BlasKernel{"Athlon", Vectors::sse},
    BlasKernel{"Opteron", Vectors::sse},
    BlasKernel{"Opteron_SSE3", Vectors::sse},
    BlasKernel{"Barcelona", Vectors::sse},
    BlasKernel{"Bobcat", Vectors::sse},
    BlasKernel{"Atom", Vectors::sse},
    BlasKernel{"Nano", Vectors::sse},
    BlasKernel{"Sandybridge", Vectors::avx, &CpuFeatures::avx},
    BlasKernel{"Bulldozer", Vectors::avx, &CpuFeatures::fma4},
    BlasKernel{"Piledriver", Vectors::avx, &CpuFeatures::fma4},
    BlasKernel{"Steamroller", Vectors::avx, &CpuFeatures::fma4},
    BlasKernel{"Excavator", Vectors::avx, &CpuFeatures::fma4},
    BlasKernel{"Haswell", Vectors::avx2_fma, &CpuFeatures::avx2_fma},
    BlasKernel{"Zen", Vectors::avx2_fma, &CpuFeatures::avx2_fma},
    BlasKernel{"SkylakeX", Vectors::avx512, &CpuFeatures::avx512},
    BlasKernel{"Cooperlake", Vectors::avx512, &CpuFeatures::avx512_bf16},
    BlasKernel{"SapphireRapids", Vectors::avx512, &CpuFeatures::avx512_bf16},
};

const BlasKernel* known_kernel(std::string_view name) {
  const auto* const found = std::ranges::find_if(
      kBlasKernels, [&](const BlasKernel& kernel) { return same_kernel(kernel.name, name); });
  return found == kBlasKernels.end() ? nullptr : found;
}

}  // namespace

CpuFeatures CpuFeatures::of_this_cpu() {
  CpuFeatures has;
#if defined(__x86_64__)
  __builtin_cpu_init();
  has.avx = __builtin_cpu_supports("avx") != 0;
  has.fma4 = has.avx && __builtin_cpu_supports("fma4") != 0;
  has.avx2_fma = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  has.avx512 = has.avx2_fma && __builtin_cpu_supports("avx512f") != 0 &&
               __builtin_cpu_supports("avx512cd") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
               __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  has.avx512_bf16 = has.avx512 && __builtin_cpu_supports("avx512bf16") != 0;
#endif
  return has;
}

bool same_kernel(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string widest_kernel(const CpuFeatures& cpu) {
  if (cpu.avx512) return "SkylakeX";
  if (cpu.avx2_fma) return "Haswell";
  return cpu.avx ? "Sandybridge" : "Prescott";
}

bool runs_on(std::string_view kernel, const CpuFeatures& cpu) {
  const BlasKernel* const known = known_kernel(kernel);
  return known == nullptr || known->needs == nullptr || cpu.*known->needs;
}

bool is_narrow(std::string_view kernel, const CpuFeatures& cpu) {
  const BlasKernel* const known = known_kernel(kernel);
  return known != nullptr && known->vectors < known_kernel(widest_kernel(cpu))->vectors;
}

}  // namespace attnctl::linalg
