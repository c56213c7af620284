# The C++ library for other programs (docs/library.md). It is a shared library of the objects of attnctl_core and shows
# only namespace attn, so a program that uses it needs no other package, and its own libraries never clash with ours.
file(GLOB api_sources CONFIGURE_DEPENDS src/api/*.cpp)
add_library(attnctl_api OBJECT ${api_sources})
target_compile_definitions(attnctl_api PRIVATE ATTNCTL_VERSION="${PROJECT_VERSION}")
target_link_libraries(attnctl_api PRIVATE attnctl_core attnctl_warnings)

# Position-independent code for the shared library. Functions are still inlined, because the library shows no function of
# attnctl_core that another library could replace; the program is as fast as without.
set_target_properties(attnctl_core attnctl_api PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_compile_options(attnctl_core PRIVATE -fno-semantic-interposition)

set(public_symbols ${PROJECT_SOURCE_DIR}/cmake/public_symbols.map)
add_library(attnctl_library SHARED $<TARGET_OBJECTS:attnctl_api>)
target_link_libraries(attnctl_library PRIVATE attnctl_core)
target_link_options(attnctl_library PRIVATE LINKER:--version-script=${public_symbols})
target_compile_features(attnctl_library INTERFACE cxx_std_20)
# Until version 1.0, a new minor version may change the interface, so it is part of the SONAME.
set(attnctl_soversion ${PROJECT_VERSION_MAJOR})
if(attnctl_soversion EQUAL 0)
  set(attnctl_soversion 0.${PROJECT_VERSION_MINOR})
endif()
set_target_properties(attnctl_library PROPERTIES
  OUTPUT_NAME attnctl EXPORT_NAME attnctl VERSION ${PROJECT_VERSION} SOVERSION ${attnctl_soversion}
  LINKER_LANGUAGE CXX LINK_DEPENDS ${public_symbols})
