#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "results/result.hpp"

namespace attnctl {

struct Sequence;
class TokenNames;

/// What heads are known to rest on: each special token, by its id, and position 0, by this in the place of
/// one.
constexpr std::int64_t kFirstPosition = -1;

/// Keys of a sequence by what they are; `names` learns the tokens.
[[nodiscard]] std::map<std::int64_t, std::vector<std::size_t>> special_targets(const Sequence& sequence,
                                                                               TokenNames& names);

/// "[SEP]", "position 0".
[[nodiscard]] std::string target_name(std::int64_t target, const TokenNames& names);
/// Of results: the token, or its place 0, and the other undefined.
[[nodiscard]] Cell target_token(std::int64_t target, const TokenNames& names);
[[nodiscard]] Cell target_position(std::int64_t target);

}  // namespace attnctl
