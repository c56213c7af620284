#pragma once

#include <string_view>

namespace attnctl {

/// The meaning of a number in the heads table: one row of the catalogue (analysis/catalogue.hpp).
struct Metric {
  std::string_view name;   // JSON key and CSV column
  std::string_view unit;   // empty: dimensionless
  std::string_view range;  // "[0, 1]"
  std::string_view null;   // the value if nothing was learned; empty if unknown
  std::string_view definition;
  std::string_view source;
};

}  // namespace attnctl
