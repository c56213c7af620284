add_library(attnctl_warnings INTERFACE)
target_compile_options(attnctl_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # These give false positives in std::string and std::variant with GCC 12 (GCC bugs 105651 and 105562), especially with
  # sanitizers. Clang, clang-tidy's init-variables and the sanitizers check the same.
  target_compile_options(attnctl_warnings INTERFACE -Wno-restrict -Wno-maybe-uninitialized -Wno-stringop-overflow
                         -Wno-array-bounds)
endif()
if(ATTNCTL_WERROR)
  target_compile_options(attnctl_warnings INTERFACE -Werror)
endif()
