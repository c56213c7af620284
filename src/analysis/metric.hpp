#pragma once

#include <string_view>

namespace attnctl {

/// What a number in the heads table means: a row of the catalogue (analysis/catalogue.hpp).
struct Metric {
  std::string_view name;   // JSON key and CSV column
  std::string_view unit;   // empty: a pure number
  std::string_view range;  // "[0, 1]"
  std::string_view null;   // its value where nothing was learned; empty: none is known
  std::string_view definition;
  std::string_view source;
};

}  // namespace attnctl
