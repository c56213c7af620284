# Everything comes from Debian packages (scripts/bootstrap names them).
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc i18n)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(xtensor REQUIRED)
find_package(xtensor-blas REQUIRED)
find_package(xsimd REQUIRED)

# The OpenMP flavour: the pthread flavour keeps a second pool of threads that spin beside ours.
find_path(OPENBLAS_INCLUDE_DIR cblas.h PATHS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp
          NO_DEFAULT_PATH)
find_path(OPENBLAS_INCLUDE_DIR cblas.h REQUIRED)
find_library(OPENBLAS_LIBRARY openblas PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH)
find_library(OPENBLAS_LIBRARY openblas REQUIRED)

find_path(GMP_INCLUDE_DIR gmpxx.h REQUIRED)
find_library(GMP_LIBRARY gmp REQUIRED)

add_library(attnctl_dependencies INTERFACE)
target_include_directories(attnctl_dependencies SYSTEM INTERFACE ${OPENBLAS_INCLUDE_DIR} ${GMP_INCLUDE_DIR})
target_link_libraries(attnctl_dependencies INTERFACE Threads::Threads ZLIB::ZLIB fmt::fmt ICU::uc ICU::i18n CLI11::CLI11
                      nlohmann_json::nlohmann_json xtensor xsimd ${OPENBLAS_LIBRARY} ${GMP_LIBRARY})
