# All dependencies are Debian packages (scripts/bootstrap lists them).
if(ATTNCTL_PORTABLE)  # cmake/portable.cmake
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
  set(fmt fmt::fmt-header-only)  # Debian has no static library of fmt
  set(icu uc data)
else()
  set(fmt fmt::fmt)
  set(icu uc)
endif()
set(wanted_blas "${BLA_VENDOR}")  # the user's; FindBLAS, which xtensor-blas calls, sets one if it is empty
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(ICU REQUIRED COMPONENTS ${icu})
list(TRANSFORM icu PREPEND ICU::)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(xtensor REQUIRED)
find_package(xtensor-blas REQUIRED)
find_package(xsimd REQUIRED)

# The BLAS and LAPACK library: OpenBLAS, or the library that BLA_VENDOR names (docs/performance.md). It is not linked
# but loaded by its SONAME at run time; src/linalg/blas.cpp says why.
find_path(CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas-openmp openblas-pthread REQUIRED)
if(wanted_blas)
  set(BLA_VENDOR ${wanted_blas})
  find_package(LAPACK REQUIRED)
  set(blas_files ${LAPACK_LIBRARIES} ${BLAS_LIBRARIES})
else()
  find_library(OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-openmp REQUIRED)
  set(blas_files ${OPENBLAS_LIBRARY})
endif()
set(blas_names "")
foreach(file IN LISTS blas_files)
  execute_process(COMMAND ${CMAKE_READELF} -d ${file} OUTPUT_VARIABLE dynamic ERROR_QUIET)
  if(dynamic MATCHES "\\(SONAME\\)[^[]*\\[([^]]+)\\]")
    list(APPEND blas_names "\"${CMAKE_MATCH_1}\"")
    get_filename_component(folder ${file} DIRECTORY)
    list(APPEND CMAKE_BUILD_RPATH ${folder})
  endif()
endforeach()
if(NOT blas_names)
  message(FATAL_ERROR "No shared BLAS library among: ${blas_files}")
endif()
list(REMOVE_ITEM CMAKE_BUILD_RPATH ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES})
if(ATTNCTL_PORTABLE)
  set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
else()
  set(CMAKE_INSTALL_RPATH ${CMAKE_BUILD_RPATH})
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
endif()
list(JOIN blas_names "," blas_names)
set_source_files_properties(src/linalg/blas.cpp PROPERTIES COMPILE_DEFINITIONS
                            "ATTNCTL_BLAS_LIBRARIES=${blas_names}")

find_path(GMP_INCLUDE_DIR gmpxx.h REQUIRED)
find_library(GMP_LIBRARY gmp REQUIRED)
find_path(ONIGURUMA_INCLUDE_DIR oniguruma.h REQUIRED)
find_library(ONIGURUMA_LIBRARY onig REQUIRED)
find_path(ZSTD_INCLUDE_DIR zstd.h REQUIRED)
find_library(ZSTD_LIBRARY zstd REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)  # header-only since 0.8

add_library(attnctl_dependencies INTERFACE)
target_include_directories(attnctl_dependencies SYSTEM INTERFACE ${CBLAS_INCLUDE_DIR} ${GMP_INCLUDE_DIR}
                           ${XXHASH_INCLUDE_DIR} ${ONIGURUMA_INCLUDE_DIR} ${ZSTD_INCLUDE_DIR})
target_link_libraries(attnctl_dependencies INTERFACE Threads::Threads ZLIB::ZLIB ${fmt} ${icu}
                      nlohmann_json::nlohmann_json xtensor xsimd ${GMP_LIBRARY} ${ONIGURUMA_LIBRARY} ${ZSTD_LIBRARY}
                      ${CMAKE_DL_LIBS})
