# Installs the program, its man pages and its completions, and the C++ library. The default target makes all of them. After
# building only the target `attnctl`, pages, completions and the library's binary are missing and are not installed.
set_target_properties(attnctl PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS attnctl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# find_package(attnctl) reads these files. The target attnctl::attnctl has no dependencies.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/attnctl)
install(TARGETS attnctl_library EXPORT attnctl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} OPTIONAL
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/attnctl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT attnctl FILE attnctlConfig.cmake NAMESPACE attnctl:: DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attnctlConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attnctlConfigVersion.cmake DESTINATION ${package_dir})

set(extras_dir ${PROJECT_BINARY_DIR}/extras)
file(MAKE_DIRECTORY ${extras_dir})
set(extras "")

function(add_completion shell file destination)
  add_custom_command(OUTPUT ${extras_dir}/${file}
    COMMAND attnctl completion ${shell} > ${extras_dir}/${file}
    DEPENDS attnctl COMMENT "Completion for ${shell}" VERBATIM)
  install(FILES ${extras_dir}/${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/${destination} OPTIONAL)
  set(extras ${extras} ${extras_dir}/${file} PARENT_SCOPE)
endfunction()
add_completion(bash attnctl bash-completion/completions)
add_completion(zsh _attnctl zsh/site-functions)
add_completion(fish attnctl.fish fish/vendor_completions.d)

# A man page for the program and one for each command, as in git.
find_program(HELP2MAN help2man)
function(add_page page description command)
  add_custom_command(OUTPUT ${extras_dir}/${page}.1
    COMMAND ${PROJECT_SOURCE_DIR}/cmake/man_page.sh $<TARGET_FILE:attnctl> ${PROJECT_VERSION} ${page} ${description}
      ${command} > ${extras_dir}/${page}.1
    DEPENDS attnctl ${PROJECT_SOURCE_DIR}/cmake/man_page.sh COMMENT "Man page ${page}(1)" VERBATIM)
  install(FILES ${extras_dir}/${page}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
  set(extras ${extras} ${extras_dir}/${page}.1 PARENT_SCOPE)
endfunction()
if(HELP2MAN)
  add_page(attnctl "show how each attention head of a transformer behaves" "")
  add_page(attnctl-analyze "patterns, metrics of every head, and weights analyses" analyze)
  add_page(attnctl-weights "analyses of weights: similarity of heads, ranks, directions" weights)
  add_page(attnctl-view "show attention patterns that another program computed" view)
  add_page(attnctl-study "measure what each head does over a corpus" study)
  add_page(attnctl-merge "compute the results of a study from the states of its shards" merge)
  add_page(attnctl-compare "compare the weights or the behaviour of two models, or two studies" compare)
  add_page(attnctl-series "follow each head over the checkpoints of a training" series)
  add_page(attnctl-plan "predict the time and memory of a study on several machines" plan)
  add_page(attnctl-experiment "run an experiment on attention: a table, a summary and charts" experiment)
  add_page(attnctl-info "architecture, parameters, FLOPs and memory of a model" info)
  add_page(attnctl-tokenize "ids, tokens, offsets and words of texts" tokenize)
  add_page(attnctl-verify "compare the float32 pass with float64, and with a reference" verify)
  add_page(attnctl-bench "time of each stage, compared with the GEMM peak of the machine" bench)
  add_page(attnctl-explain "print what a column, metric, measure or analysis means" explain)
  add_page(attnctl-schema "print the JSON Schema of an output" schema)
  add_page(attnctl-completion "print the completion script of a shell" completion)
endif()
add_custom_target(attnctl_extras ALL DEPENDS ${extras})
