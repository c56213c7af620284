# Measures with gcov which lines and branches of some folders the tests reach (scripts/coverage). Only the sources of
# these folders are slower, and without optimisation, because it merges conditions. The property takes them out of the
# groups.
option(ATTNCTL_COVERAGE "Measure the folders that read files and keep results" OFF)
if(ATTNCTL_COVERAGE)
  file(GLOB_RECURSE measured CONFIGURE_DEPENDS src/checkpoint/*.cpp src/tokenizer/*.cpp src/input/*.cpp
    src/formats/*.cpp src/results/*.cpp)
  set_source_files_properties(${measured} PROPERTIES COMPILE_OPTIONS "--coverage;-O0;-g1" SKIP_PRECOMPILE_HEADERS ON)
  target_link_options(attnctl_core PUBLIC --coverage)
endif()
