# Installs what was built into an empty folder, checks the files, and builds and runs examples/ with the installed library:
#   cmake -DBUILD=... -DSOURCE=... -DCOMPILER=... -DGENERATOR=... [-DSANITIZE=...] -P tests/install_test.cmake
set(prefix ${BUILD}/install-test)
file(REMOVE_RECURSE ${prefix})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

function(need file text)
  if(NOT EXISTS ${prefix}/${file})
    message(SEND_ERROR "${file} was not installed")
    return()
  endif()
  file(READ ${prefix}/${file} content)
  string(FIND "${content}" "${text}" place)
  if(place EQUAL -1)
    message(SEND_ERROR "${file} does not say \"${text}\"")
  endif()
endfunction()

execute_process(COMMAND ${prefix}/bin/attnctl --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
if(NOT version MATCHES "^attnctl [0-9]+\\.[0-9]+\\.[0-9]+")
  message(SEND_ERROR "the installed program says ${version}")
endif()
need(share/doc/attnctl/docs/cli.md "# ")
need(share/doc/attnctl/schemas/study.json "schema")
need(share/attnctl/data/tiny-bert/config.json "bert")
need(share/bash-completion/completions/attnctl "complete -F _attnctl attnctl")
need(share/zsh/site-functions/_attnctl "#compdef attnctl")
need(share/fish/vendor_completions.d/attnctl.fish "complete -c attnctl")
find_program(HELP2MAN help2man)
if(HELP2MAN)
  need(share/man/man1/attnctl.1 "attnctl \\- show how each")
  need(share/man/man1/attnctl-analyze.1 "attnctl-analyze \\- patterns")
  need(share/man/man1/attnctl-study.1 "attnctl-study \\- measure what each head does")
else()
  message(STATUS "help2man is not installed: no man pages to look at")
endif()

set(examples ${prefix}/build-examples)
set(flags "")
if(SANITIZE)
  set(flags -DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE})
endif()
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/examples -B ${examples} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
    -DCMAKE_PREFIX_PATH=${prefix} ${flags}
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${examples} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

# Runs a command in the root of the sources and compares its standard output with `expected`.
function(need_output expected)
  cmake_parse_arguments(PARSE_ARGV 1 run "" "INPUT" "COMMAND")
  if(NOT run_INPUT)
    set(run_INPUT /dev/null)
  endif()
  execute_process(COMMAND ${run_COMMAND} INPUT_FILE ${run_INPUT} WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE output
                  COMMAND_ERROR_IS_FATAL ANY)
  if(NOT output STREQUAL expected)
    list(JOIN run_COMMAND " " command)
    message(SEND_ERROR "${command}\nprinted:\n${output}\nexpected:\n${expected}")
  endif()
endfunction()
set(attended [[
[CLS]      the        0.34
the        mat        0.57
cat        the        1.00
sat        cat        0.98
on         sat        0.96
the        on         0.97
mat        the        1.00
because    mat        1.00
it         because    1.00
was        it         0.98
tired      was        0.96
.          tired      1.00
[SEP]      .          1.00
]])
set(sentence "The cat sat on the mat because it was tired.")
need_output("${attended}" COMMAND ${examples}/attends_to data/tiny-bert 0 3 ${sentence})
need_output([[
layer 0  0.32 2.04 2.23 0.36
layer 1  2.01 2.06 2.16 1.98
layer 2  2.13 2.26 1.65 1.95
]] INPUT ${SOURCE}/data/sentences.txt COMMAND ${examples}/observer data/tiny-bert)

execute_process(COMMAND ${examples}/attends_to data/tiny-bert 9 0 cat WORKING_DIRECTORY ${SOURCE}
                RESULT_VARIABLE status ERROR_VARIABLE error)
if(NOT status EQUAL 2 OR NOT error STREQUAL "attends_to: the model has no head 9.0; Model::info() lists its layers\n")
  message(SEND_ERROR "attends_to with a wrong layer ended with ${status}: ${error}")
endif()

# Moves the installed files to another folder and builds an example with pkg-config, without CMake.
find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  set(moved ${BUILD}/install-test-moved)
  file(REMOVE_RECURSE ${moved})
  file(RENAME ${prefix} ${moved})
  file(GLOB_RECURSE pc_file ${moved}/attnctl.pc)
  get_filename_component(pc_dir ${pc_file} DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} ${pc_dir})
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs attnctl OUTPUT_VARIABLE pc_flags COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${PKG_CONFIG} --variable=libdir attnctl OUTPUT_VARIABLE pc_libdir
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(pc_flags UNIX_COMMAND "${pc_flags}")
  if(SANITIZE)
    list(APPEND pc_flags -fsanitize=${SANITIZE})
  endif()
  execute_process(COMMAND ${COMPILER} -std=c++20 ${SOURCE}/examples/attends_to.cpp -o ${moved}/attends_to ${pc_flags}
                  -Wl,-rpath,${pc_libdir} COMMAND_ERROR_IS_FATAL ANY)
  need_output("${attended}" COMMAND ${moved}/attends_to data/tiny-bert 0 3 ${sentence})
  file(REMOVE_RECURSE ${moved})
else()
  message(STATUS "pkg-config is not installed: attnctl.pc was not tested")
endif()
file(REMOVE_RECURSE ${prefix})
