#include "linalg/blas/blas_choice.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.hpp"

namespace attnctl::linalg {
namespace {

/// Width of the vectors that a kernel computes with: what its speed goes by.
enum class Vectors { sse, avx, avx2_fma, avx512 };

struct BlasKernel {
  std::string_view name;
  Vectors vectors;
  bool (*runs_on)(const CpuFeatures&);
};

bool anywhere(const CpuFeatures&) {
  return true;
}
bool needs_avx(const CpuFeatures& cpu) {
  return cpu.avx;
}
bool needs_fma4(const CpuFeatures& cpu) {
  return cpu.fma4;
}
bool needs_avx2_fma(const CpuFeatures& cpu) {
  return cpu.avx2_fma;
}
bool needs_avx512(const CpuFeatures& cpu) {
  return cpu.avx512;
}
bool needs_avx512_bf16(const CpuFeatures& cpu) {
  return cpu.avx512_bf16;
}

// The names of OpenBLAS' dynamic.c. The kernels before AVX need SSE3 to SSE4a, which no rule here chooses.
constexpr std::array kernel_table{
    BlasKernel{"Prescott", Vectors::sse, anywhere},
    BlasKernel{"Core2", Vectors::sse, anywhere},
    BlasKernel{"Penryn", Vectors::sse, anywhere},
    BlasKernel{"Dunnington", Vectors::sse, anywhere},
    BlasKernel{"Nehalem", Vectors::sse, anywhere},
    BlasKernel{"Athlon", Vectors::sse, anywhere},
    BlasKernel{"Opteron", Vectors::sse, anywhere},
    BlasKernel{"Opteron_SSE3", Vectors::sse, anywhere},
    BlasKernel{"Barcelona", Vectors::sse, anywhere},
    BlasKernel{"Bobcat", Vectors::sse, anywhere},
    BlasKernel{"Atom", Vectors::sse, anywhere},
    BlasKernel{"Nano", Vectors::sse, anywhere},
    BlasKernel{"Sandybridge", Vectors::avx, needs_avx},
    BlasKernel{"Bulldozer", Vectors::avx, needs_fma4},
    BlasKernel{"Piledriver", Vectors::avx, needs_fma4},
    BlasKernel{"Steamroller", Vectors::avx, needs_fma4},
    BlasKernel{"Excavator", Vectors::avx, needs_fma4},
    BlasKernel{"Haswell", Vectors::avx2_fma, needs_avx2_fma},
    BlasKernel{"Zen", Vectors::avx2_fma, needs_avx2_fma},
    BlasKernel{"SkylakeX", Vectors::avx512, needs_avx512},
    BlasKernel{"Cooperlake", Vectors::avx512, needs_avx512_bf16},
    BlasKernel{"SapphireRapids", Vectors::avx512, needs_avx512_bf16},
};

/// OpenBLAS compares names without case.
bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

const BlasKernel* known_kernel(std::string_view name) {
  const auto* const found =
      std::find_if(kernel_table.begin(), kernel_table.end(),
                   [&](const BlasKernel& kernel) { return same_name(kernel.name, name); });
  return found == kernel_table.end() ? nullptr : found;
}

/// The kernel that every OpenBLAS with kernels for these vectors has.
const BlasKernel* best_kernel(const CpuFeatures& cpu) {
  if (cpu.avx512) return known_kernel("SkylakeX");
  if (cpu.avx2_fma) return known_kernel("Haswell");
  if (cpu.avx) return known_kernel("Sandybridge");
  return known_kernel("Prescott");
}

}  // namespace

BlasChoice choose_blas_kernel(const BlasState& state, const CpuFeatures& cpu) {
  const BlasKernel* const best = best_kernel(cpu);
  const BlasKernel* const set = known_kernel(state.user_setting);
  if (set != nullptr && !set->runs_on(cpu)) {
    return {std::string(best->name),
            fmt::format("OPENBLAS_CORETYPE={} needs instructions that this CPU lacks; it is ignored",
                        escaped(state.user_setting))};
  }
  if (!state.user_setting.empty()) {
    if (same_name(state.user_setting, state.kernel)) return {};
    return {{},
            fmt::format("OPENBLAS_CORETYPE={} is no kernel of this OpenBLAS, which runs {}",
                        escaped(state.user_setting), state.kernel)};
  }
  const BlasKernel* const now = known_kernel(state.kernel);
  if (now == nullptr || now->vectors >= best->vectors) return {};
  return {std::string(best->name), std::nullopt};
}

}  // namespace attnctl::linalg
