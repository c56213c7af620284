# Copies the libraries that the files `binaries` and `blas_files` need to `folder`, under the names by which they are
# loaded. The C and C++ libraries and zlib are left out: every system has them, and other modules of a process use them too
# (PEP 600). `scripts` is the folder of small_icu_data.
set(system "^(linux-vdso|ld-linux-.*|lib(c|m|dl|rt|pthread|util|resolv|stdc\\+\\+|gcc_s|z))\\.so")
file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${binaries} ${blas_files} RESOLVED_DEPENDENCIES_VAR found
     UNRESOLVED_DEPENDENCIES_VAR missing PRE_EXCLUDE_REGEXES ${system})
if(missing)
  message(FATAL_ERROR "These libraries are not installed: ${missing}")
endif()
set(destination ${CMAKE_INSTALL_PREFIX}/${folder})
file(MAKE_DIRECTORY ${destination})
foreach(file IN LISTS found blas_files)
  execute_process(COMMAND ${readelf} -d ${file} OUTPUT_VARIABLE dynamic)
  string(REGEX MATCH "\\(SONAME\\)[^[]*\\[([^]]+)\\]" ignored "${dynamic}")
  set(name ${CMAKE_MATCH_1})
  file(REAL_PATH ${file} real)
  if(name MATCHES "^libicudata\\." AND icu_data)
    execute_process(COMMAND ${scripts}/small_icu_data ${icu_data} ${destination}/${name} ${compiler}
                    COMMAND_ERROR_IS_FATAL ANY)
  else()
    configure_file(${real} ${destination}/${name} COPYONLY)
  endif()
endforeach()
