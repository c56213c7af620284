# Measures with gcov which lines and branches of some folders the tests reach (scripts/coverage). Only the sources of
# these folders are measured. They are not optimised, because that would merge conditions, and not in groups, because
# they have options of their own.
option(ATTNCTL_COVERAGE "Measure the folders that read files and keep results" OFF)
if(ATTNCTL_COVERAGE)
  file(GLOB_RECURSE measured CONFIGURE_DEPENDS src/checkpoint/*.cpp src/tokenizer/*.cpp src/input/*.cpp
    src/formats/*.cpp src/results/*.cpp)
  set_source_files_properties(${measured} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS "--coverage;-fprofile-update=atomic;-O0;-g1")  # atomic: threads share the counters
  target_link_options(attnctl_core PUBLIC --coverage)
endif()
