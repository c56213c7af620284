#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

#include "model/model.hpp"

namespace attnctl {

/// Returns the index of a head in an ascending list of heads, or nullopt if it is missing.
[[nodiscard]] inline std::optional<std::size_t> head_index(std::span<const HeadId> heads, HeadId head) {
  const auto found = std::lower_bound(heads.begin(), heads.end(), head);
  if (found == heads.end() || *found != head) return std::nullopt;
  return static_cast<std::size_t>(found - heads.begin());
}

}  // namespace attnctl
