#pragma once

#include <cstdint>

#include "tokenizer/files/tokenizer_file.hpp"

namespace attnctl {

inline constexpr std::uint64_t kLargestTokenId = 16'777'215;

/// Refuses a token or an id that stands twice, and ids that leave far more free than they use. Gives the
/// added tokens the ids that the reference gives them: that of the vocabulary's token, or one from the number
/// of tokens on, whatever the file says. Throws Error(bad_input).
void check_vocabulary(TokenizerFile& file);

}  // namespace attnctl
