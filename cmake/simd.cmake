# The vector kernels are compiled once for each instruction set and chosen at run time
# (linalg/kernels.cpp, linalg/gemm_kernels.cpp),
# so that one binary built for the baseline runs everywhere. They are always optimised: an inline function that
# stays a call would be compiled for the wide set and might be the one that the linker keeps for everybody. In
# kernels_*.cpp, what is fused to one rounding stands in the code: exact sums of vector_math.hpp would be wrong if the
# compiler fused more.
set(exact -ffp-contract=off)
set_source_files_properties(src/linalg/kernels/kernels_baseline.cpp PROPERTIES COMPILE_OPTIONS "${exact}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(optimised "$<$<CONFIG:Debug>:-O2>")
  set(avx2 -mavx2 -mfma)
  set(avx512 ${avx2} -mavx512f -mavx512cd -mavx512dq -mavx512bw -mavx512vl)
  # GCC 12 warns of its own intrinsics, whose undefined registers are meant (GCC bug 105593).
  set(quiet "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>" "$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>")
  set_source_files_properties(src/linalg/kernels/kernels_avx2.cpp PROPERTIES COMPILE_OPTIONS "${avx2};${exact};${optimised}")
  set_source_files_properties(src/linalg/kernels/kernels_avx512.cpp PROPERTIES COMPILE_OPTIONS
                              "${avx512};${exact};${optimised};${quiet}")
  # A mark where each of the many sums of a tile begins and ends would keep them out of registers, and the compiler
  # busy for a quarter of an hour.
  if(ATTNCTL_SANITIZE)
    set(tiles -fno-sanitize-address-use-after-scope)
  endif()
  set_source_files_properties(src/linalg/kernels/gemm_kernels_avx2.cpp PROPERTIES COMPILE_OPTIONS
                              "${avx2};${optimised};${tiles}")
  set_source_files_properties(src/linalg/kernels/gemm_kernels_avx512.cpp PROPERTIES COMPILE_OPTIONS
                              "${avx512};${optimised};${quiet};${tiles}")
  set_source_files_properties(src/linalg/kernels/gemm_kernels_baseline.cpp PROPERTIES COMPILE_OPTIONS "${optimised};${tiles}")
endif()
file(GLOB kernel_sources src/linalg/kernels/*_baseline.cpp src/linalg/kernels/*_avx2.cpp
     src/linalg/kernels/*_avx512.cpp)
set_source_files_properties(${kernel_sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)  # their flags differ
