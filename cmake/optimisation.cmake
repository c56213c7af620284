# Compiles sources that run once per command with less optimisation, which takes a third less time. Sources that run
# for each token, weight or row of a pattern keep the optimisation of the build type.
file(GLOB_RECURSE cold_sources CONFIGURE_DEPENDS src/api/*.cpp src/checkpoint/*.cpp src/cli/*.cpp src/inspect/*.cpp
     src/model/config/*.cpp src/model/families/*.cpp src/model/binding/*.cpp src/model/accounting/*.cpp
     src/report/svg_*.cpp src/textbook/*.cpp)
list(APPEND cold_sources ${PROJECT_SOURCE_DIR}/src/analysis/model_summary.cpp)
# Observers of patterns, readers of each weight, writers of each token, and large computations.
set(hot bench largest_value positions tokenize gguf numpy json_weights hull heads gradients)
list(JOIN hot "|" hot)
list(FILTER cold_sources EXCLUDE REGEX "/(${hot})\\.cpp$")
set_source_files_properties(${cold_sources} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O1>")
