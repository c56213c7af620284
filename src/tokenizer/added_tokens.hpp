#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/files/part_config.hpp"
#include "tokenizer/models/piece_text.hpp"
#include "tokenizer/normalizers/normalizer.hpp"

namespace attnctl {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;
  bool lstrip = false;
  bool rstrip = false;
  bool single_word = false;
};

/// The tokens that are found in the text before and after its normalization.
class AddedTokens {
 public:
  /// `normalizer` may be null; it normalizes the content of `normalized` tokens.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer);
  ~AddedTokens();
  AddedTokens(AddedTokens&&) noexcept;
  AddedTokens& operator=(AddedTokens&&) noexcept;

  [[nodiscard]] const std::vector<AddedToken>& tokens() const;
  /// Cuts out the tokens that are not normalized, leftmost-longest: call on the raw text.
  void cut_raw(PieceText& text) const;
  /// Cuts out the normalized ones: call behind the normalizer.
  void cut_normalized(PieceText& text) const;

 private:
  struct Matchers;
  std::unique_ptr<const Matchers> matchers_;
};

/// /added_tokens of the document. Throws Error(bad_input).
[[nodiscard]] std::vector<AddedToken> read_added_tokens(const PartConfig& document);

}  // namespace attnctl
