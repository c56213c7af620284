#pragma once

#include <memory>

#include "tokenizer/files/part_config.hpp"
#include "tokenizer/models/piece_text.hpp"

namespace attnctl {

/// Rewrites the text pieces. Holds no state between calls: workers share it.
class Normalizer {
 public:
  Normalizer() = default;
  virtual ~Normalizer() = default;
  Normalizer(const Normalizer&) = delete;
  Normalizer& operator=(const Normalizer&) = delete;
  virtual void normalize(PieceText& text) const = 0;
};
using NormalizerPtr = std::unique_ptr<const Normalizer>;

/// The normalizer that a part of tokenizer.json describes. Throws Error(bad_input).
[[nodiscard]] NormalizerPtr make_normalizer(const PartConfig& config);

}  // namespace attnctl
