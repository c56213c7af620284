# Compiles the style and the scripts of HTML pages (src/report/html/) into the library.
set(page_folder ${PROJECT_SOURCE_DIR}/src/report/html)
set(page_scripts data draw state elements heatmap_figure chart_figure pattern_views result_views main)  # in this order
set(page_script "\"use strict\";\n")
foreach(page_name IN LISTS page_scripts)
  file(READ ${page_folder}/${page_name}.js page_text)
  string(APPEND page_script "${page_text}")
endforeach()
file(READ ${page_folder}/page.css page_style)
file(READ ${page_folder}/page.html page_html)
string(SHA256 page_script_hash "${page_script}")
string(SHA256 page_style_hash "${page_style}")
list(TRANSFORM page_scripts PREPEND ${page_folder}/ OUTPUT_VARIABLE page_files)
list(TRANSFORM page_files APPEND .js)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page_files} ${page_folder}/page.css
  ${page_folder}/page.html)
configure_file(${PROJECT_SOURCE_DIR}/cmake/page.cpp.in ${PROJECT_BINARY_DIR}/generated/page.cpp @ONLY)
target_sources(attnctl_core PRIVATE ${PROJECT_BINARY_DIR}/generated/page.cpp)
