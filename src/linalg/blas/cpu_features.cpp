#include "linalg/blas/cpu_features.hpp"

namespace attnctl::linalg {

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

}  // namespace attnctl::linalg
