#pragma once

#include <memory>

#include "tokenizer/files/part_config.hpp"
#include "tokenizer/models/piece_text.hpp"

namespace attnctl {

/// Cuts the text pieces further; some rewrite them as well. Holds no state between calls: workers share it.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  virtual ~PreTokenizer() = default;
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;
  virtual void cut(PieceText& text) const = 0;
};
using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;

/// The pre-tokenizer that a part of tokenizer.json describes. Throws Error(bad_input).
[[nodiscard]] PreTokenizerPtr make_pre_tokenizer(const PartConfig& config);

}  // namespace attnctl
