add_library(attnctl_warnings INTERFACE)
target_compile_options(attnctl_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # Both see ghosts inside of std::string and std::variant in GCC 12 (its bugs 105651 and 105562), the more so with
  # sanitizers. Clang, clang-tidy's init-variables and the sanitizers watch in their place.
  target_compile_options(attnctl_warnings INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
if(ATTNCTL_WERROR)
  target_compile_options(attnctl_warnings INTERFACE -Werror)
endif()
