# The vector kernels are compiled once for each instruction set and chosen at run time (linalg/kernels.cpp),
# so that one binary built for the baseline runs everywhere.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(src/linalg/kernels_avx2.cpp PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma")
  set_source_files_properties(src/linalg/kernels_avx512.cpp PROPERTIES COMPILE_OPTIONS
                              "-mavx512f;-mavx512cd;-mavx512dq;-mavx512bw;-mavx512vl;-mavx2;-mfma")
endif()
