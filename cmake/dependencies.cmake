# All dependencies are Debian packages (scripts/bootstrap lists them).
set(wanted_blas "${BLA_VENDOR}")  # the user's; FindBLAS, which xtensor-blas calls, sets one if it is empty
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(xtensor REQUIRED)
find_package(xtensor-blas REQUIRED)
find_package(xsimd REQUIRED)

# OpenBLAS, unless BLA_VENDOR names another BLAS and LAPACK as FindBLAS knows them (docs/performance.md). The header
# is OpenBLAS's in any case: what is called of it is the standard's, all else is looked up in the running process.
# The OpenMP flavour: the pthread flavour keeps a second pool of threads that spin beside ours.
find_path(OPENBLAS_INCLUDE_DIR cblas.h PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp
          NO_DEFAULT_PATH)
find_path(OPENBLAS_INCLUDE_DIR cblas.h REQUIRED)
if(wanted_blas)
  set(BLA_VENDOR ${wanted_blas})
  find_package(LAPACK REQUIRED)
  set(blas_libraries ${LAPACK_LIBRARIES} ${BLAS_LIBRARIES})
else()
  find_library(OPENBLAS_LIBRARY openblas PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH)
  find_library(OPENBLAS_LIBRARY openblas REQUIRED)
  set(blas_libraries ${OPENBLAS_LIBRARY})
endif()

find_path(GMP_INCLUDE_DIR gmpxx.h REQUIRED)
find_library(GMP_LIBRARY gmp REQUIRED)
find_path(ONIGURUMA_INCLUDE_DIR oniguruma.h REQUIRED)
find_library(ONIGURUMA_LIBRARY onig REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)  # header-only since 0.8

add_library(attnctl_dependencies INTERFACE)
target_include_directories(attnctl_dependencies SYSTEM INTERFACE ${OPENBLAS_INCLUDE_DIR} ${GMP_INCLUDE_DIR}
                           ${XXHASH_INCLUDE_DIR} ${ONIGURUMA_INCLUDE_DIR})
target_link_libraries(attnctl_dependencies INTERFACE Threads::Threads ZLIB::ZLIB fmt::fmt ICU::uc CLI11::CLI11
                      nlohmann_json::nlohmann_json xtensor xsimd ${blas_libraries} ${GMP_LIBRARY} ${ONIGURUMA_LIBRARY} ${CMAKE_DL_LIBS})
