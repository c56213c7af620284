#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "results/results.hpp"

namespace attnctl {

struct Sequence;
class TokenNames;

/// The id of the target "position 0". The other targets are special tokens, by token id.
constexpr std::int64_t kFirstPosition = -1;

/// Returns the positions of each target in a sequence. Adds the special tokens to `names`.
[[nodiscard]] std::map<std::int64_t, std::vector<std::size_t>> special_targets(const Sequence& sequence,
                                                                               TokenNames& names);

/// Returns the name of a target: "[SEP]" or "position 0".
[[nodiscard]] std::string target_name(std::int64_t target, const TokenNames& names);
/// Return the columns token and position of a target. One of the two is undefined.
[[nodiscard]] Cell target_token(std::int64_t target, const TokenNames& names);
[[nodiscard]] Cell target_position(std::int64_t target);

}  // namespace attnctl
