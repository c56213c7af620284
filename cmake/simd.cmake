# Compiles the vector kernels once per instruction set; the program selects one at run time
# (linalg/blas.cpp). The rest is built for the baseline, so one program runs everywhere.
# Kernels are always optimised: an inline function that is not inlined would be compiled for the wide instruction set,
# and the linker might keep this version for all callers. kernels_*.cpp disable automatic fused multiply-add, because
# the exact sums of vector_math.hpp depend on where values are rounded; the code fuses explicitly.
set(exact -ffp-contract=off)
set_source_files_properties(src/linalg/kernels/kernels_baseline.cpp PROPERTIES COMPILE_OPTIONS "${exact}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(optimised "$<$<CONFIG:Debug>:-O2>")
  set(avx2 -mavx2 -mfma -mf16c)
  set(avx512 ${avx2} -mavx512f -mavx512cd -mavx512dq -mavx512bw -mavx512vl)
  # GCC 12 warns about undefined registers in its own intrinsics, which are intentional (GCC bug 105593).
  set(quiet "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>" "$<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>")
  set_source_files_properties(src/linalg/kernels/kernels_avx2.cpp PROPERTIES COMPILE_OPTIONS "${avx2};${exact};${optimised}")
  set_source_files_properties(src/linalg/kernels/kernels_avx512.cpp PROPERTIES COMPILE_OPTIONS
                              "${avx512};${exact};${optimised};${quiet}")
  # Use-after-scope checks would keep the sums of a tile out of registers, and compiling would take 15 minutes.
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
