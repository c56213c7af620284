#pragma once

#include <cstdint>
#include <span>

#include "results/result.hpp"

namespace attnctl {

/// Returns the number of values that are NaN or infinite. Writers cannot write them as numbers: they become
/// null in JSON, an empty cell in CSV and "-" in text. Undefined values (kUndefined, an empty cell) are not
/// counted.
[[nodiscard]] std::uint64_t count_non_finite(const Value& value);
[[nodiscard]] std::uint64_t count_non_finite(const Table& table);
[[nodiscard]] std::uint64_t count_non_finite(const Array& array);
[[nodiscard]] std::uint64_t count_non_finite(const Cell& cell);
/// Does not count -inf if `hidden_is_minus_infinity` is set: -inf is the score of a hidden key.
[[nodiscard]] std::uint64_t count_non_finite(std::span<const float> values, bool hidden_is_minus_infinity);

}  // namespace attnctl
