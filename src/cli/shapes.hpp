#pragma once

#include "attnctl/base/result.hpp"

#include <cstddef>

namespace attnctl::cli {

/// Item `index` of an array whose last `axes` axes make an item: the rest is counted through. Shares the
/// values.
[[nodiscard]] Array item_of(const Array& array, std::size_t index, std::size_t axes);

}  // namespace attnctl::cli
