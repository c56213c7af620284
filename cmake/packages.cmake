# The Debian packages, which `cpack -G DEB` makes (scripts/release): one for each component of cmake/install.cmake.
# Configure with -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_SKIP_INSTALL_RPATH=ON.
set(ATTNCTL_CONTACT "attnctl maintainers <maintainers@attnctl.invalid>" CACHE STRING "Maintainer of the Debian packages")
set(CPACK_PACKAGE_CONTACT ${ATTNCTL_CONTACT})
set(CPACK_PACKAGE_VENDOR attnctl)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "attnctl built using CMake")  # the default, which is in no description
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL program library development data)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)

# Adds a package. Call: add_package(COMPONENT NAME SECTION SUMMARY LINE...). dpkg-shlibdeps finds the libraries that are
# linked. BLAS is loaded by name (src/linalg/blas.cpp), so the packages of programs and libraries name it themselves.
set(blas_package "libopenblas0-openmp | libopenblas0-pthread")
macro(add_package component name section)
  string(TOUPPER ${component} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${key}_PACKAGE_SECTION ${section})
  string(JOIN "\n" CPACK_COMPONENT_${key}_DESCRIPTION ${ARGN})
endmacro()
set(library_package libattnctl${attnctl_soversion})

add_package(program attnctl science "show what every attention head of a transformer does"
  "attnctl reads the checkpoint of a transformer from disk and writes attention"
  "patterns, metrics of each head, analyses of the weights, and pictures. It runs"
  "on a CPU and needs neither Python nor a network."
  "."
  "This package has the program, its man pages, completions, schemas and"
  "documents.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS ${blas_package})
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "librsvg2-2, fonts-dejavu-core")  # for PNG and PDF
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS attnctl-data)

add_package(library ${library_package} libs "shared library of attnctl"
  "With this library, programs run a transformer and read the attention patterns"
  "of its heads.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS ${blas_package})
file(WRITE ${PROJECT_BINARY_DIR}/debian-library/shlibs
  "libattnctl ${attnctl_soversion} ${library_package} (>= ${PROJECT_VERSION})\n")
file(WRITE ${PROJECT_BINARY_DIR}/debian-library/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA
  "${PROJECT_BINARY_DIR}/debian-library/shlibs;${PROJECT_BINARY_DIR}/debian-library/triggers")

add_package(development libattnctl-dev libdevel "C++ headers of attnctl"
  "This package has the headers of the C++ library of attnctl, and what CMake and"
  "pkg-config need to find it.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library_package} (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

add_package(data attnctl-data science "sample models and inputs of attnctl"
  "Two small trained transformers, two single attention layers, and inputs for"
  "them. The examples of attnctl's documents use these files.")
set(CPACK_DEBIAN_DATA_PACKAGE_ARCHITECTURE all)

# Adds to each package what Debian requires: changelogs and the licence, compressed files, times of the release.
configure_file(${PROJECT_SOURCE_DIR}/packaging/debian_files.cmake.in ${PROJECT_BINARY_DIR}/debian_files.cmake @ONLY)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_BINARY_DIR}/debian_files.cmake)
include(CPack)

# The SBOM lists the parts of libraries that this file names (packaging/sbom).
if(ATTNCTL_PORTABLE)
  target_link_options(attnctl PRIVATE LINKER:-Map=${PROJECT_BINARY_DIR}/attnctl.map)
endif()
