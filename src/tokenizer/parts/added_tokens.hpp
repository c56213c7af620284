#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/parts/part_config.hpp"
#include "tokenizer/parts/piece_text.hpp"

namespace attnctl {

/// A member of /added_tokens in tokenizer.json.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;
  bool lstrip = false;
  bool rstrip = false;
  bool single_word = false;
};

/// Finds added tokens in a text, before and after its normalization.
class AddedTokens {
 public:
  /// `normalizer` may be empty; it normalizes the content of `normalized` tokens.
  AddedTokens(std::vector<AddedToken> tokens, const TextStep& normalizer);

  [[nodiscard]] const std::vector<AddedToken>& tokens() const;
  /// Cuts out the tokens that are not normalized, leftmost-longest. For the raw text.
  void cut_raw(PieceText& text) const;
  /// Cuts out the normalized tokens. For the normalized text.
  void cut_normalized(PieceText& text) const;

 private:
  struct Matchers;
  std::shared_ptr<const Matchers> matchers_;
};

/// Reads /added_tokens. Throws Error(bad_input).
[[nodiscard]] std::vector<AddedToken> read_added_tokens(const PartConfig& document);

}  // namespace attnctl
