# A toolchain file for programs that run on each Linux with glibc 2.31 or later (Debian 11, Ubuntu 20.04) and need no
# installed package (docs/install.md):
#   packaging/sysroot ~/sysroot
#   ATTNCTL_SYSROOT=~/sysroot cmake -S . -B build-portable -DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/portable.cmake
set(ATTNCTL_SYSROOT "$ENV{ATTNCTL_SYSROOT}" CACHE PATH "The folder that packaging/sysroot made")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ATTNCTL_SYSROOT)
if(NOT EXISTS "${ATTNCTL_SYSROOT}/.complete")
  message(FATAL_ERROR "ATTNCTL_SYSROOT is \"${ATTNCTL_SYSROOT}\", which packaging/sysroot did not make or not complete")
endif()
set(ATTNCTL_PORTABLE ON)
set(CMAKE_SYSROOT ${ATTNCTL_SYSROOT})
set(CMAKE_C_COMPILER gcc-12)
set(CMAKE_CXX_COMPILER g++-12)
# CMake finds libraries in the sysroot only; programs, and packages such as those of Python, also elsewhere.
set(CMAKE_FIND_ROOT_PATH ${ATTNCTL_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)
list(APPEND CMAKE_LIBRARY_PATH /bundled)  # in the sysroot: the shared libraries that are installed with the program
set(CMAKE_C_FLAGS_INIT "-ffile-prefix-map=${ATTNCTL_SYSROOT}=")
set(CMAKE_CXX_FLAGS_INIT "-ffile-prefix-map=${ATTNCTL_SYSROOT}=")
# The compiler's libraries become part of each binary and stay hidden in it.
set(link "-B ${ATTNCTL_SYSROOT}/usr/lib/x86_64-linux-gnu/ -static-libstdc++ -static-libgcc")
set(CMAKE_EXE_LINKER_FLAGS_INIT "${link}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "${link} -Wl,--exclude-libs,ALL")
set(CMAKE_MODULE_LINKER_FLAGS_INIT "${link} -Wl,--exclude-libs,ALL")
