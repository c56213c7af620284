#pragma once

#include <cstdint>
#include <span>

#include "results/result.hpp"

namespace attnctl {

/// Number of values that are NaN or infinite, so that writers have nothing to write: null in JSON, an empty
/// cell in CSV, "-" in text. Undefined values (kUndefined, an empty cell) are not counted.
[[nodiscard]] std::uint64_t count_non_finite(const Value& value);
[[nodiscard]] std::uint64_t count_non_finite(const Table& table);
[[nodiscard]] std::uint64_t count_non_finite(const Array& array);
[[nodiscard]] std::uint64_t count_non_finite(const Cell& cell);
/// With `hidden_is_minus_infinity` (scores), -inf marks a hidden key and is not counted either.
[[nodiscard]] std::uint64_t count_non_finite(std::span<const float> values, bool hidden_is_minus_infinity);

}  // namespace attnctl
