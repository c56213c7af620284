# Compiles eight sources at a time (a unity build): a full build takes half the time, because the headers that they
# share are read once. Turn it off to edit one source again and again. A group is compiled as one source, so the names
# in its anonymous namespaces must differ.
option(ATTNCTL_GROUPS "Compile sources in groups of eight" ON)
set_target_properties(attnctl_core PROPERTIES UNITY_BUILD ${ATTNCTL_GROUPS} UNITY_BUILD_BATCH_SIZE 8)
# GCC inlines fewer functions in a large source: tokenizing takes up to 15 % longer if these sources are in groups.
file(GLOB ungrouped CONFIGURE_DEPENDS src/tokenizer/*.cpp src/tokenizer/models/*.cpp src/tokenizer/parts/*.cpp
  src/tokenizer/regex/*.cpp)
list(APPEND ungrouped src/base/text.cpp src/cli/commands/tokenize.cpp src/input/text_input.cpp src/report/csv.cpp
  src/report/json.cpp src/report/number_format.cpp)
set_source_files_properties(${ungrouped} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# xtensor-blas has declarations of CBLAS that differ from those of <cblas.h>.
set_source_files_properties(src/linalg/gemm.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
if(ATTNCTL_GROUPS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC warns about types in the anonymous namespace of a source that another source includes.
  target_compile_options(attnctl_core PRIVATE -Wno-subobject-linkage)
endif()
