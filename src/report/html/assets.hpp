#pragma once

#include <string_view>

namespace attnctl::report {

/// The files of this folder, which cmake/page.cmake compiles into the program.
struct PageAssets {
  std::string_view html;  // with places such as @STYLE@
  std::string_view style, script;
  std::string_view style_hash, script_hash;  // SHA-256 in hex digits
};
extern const PageAssets kPageAssets;

}  // namespace attnctl::report
