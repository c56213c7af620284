#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace attnctl {

/// Code points [begin, end) of the original text.
struct TextRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  friend bool operator==(const TextRange&, const TextRange&) = default;
};

/// The tokens of a text or a pair of texts. All vectors have one entry per token.
struct Encoding {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> type_ids;  // from the post-processor; by default 0, and 1 for the second text
  std::vector<TextRange> offsets;      // in the text of the token; (0, 0) for added special tokens
  /// Number of the pre-tokenized piece that holds the token, from 0 in each text; nullopt for special tokens
  /// that the post-processor added.
  std::vector<std::optional<std::uint32_t>> words;
  std::vector<std::uint8_t> special;  // 1 for tokens that the post-processor added
  std::vector<std::uint8_t>
      sequence;  // 0 first text, 1 second text; added tokens: that of the text before them

  [[nodiscard]] std::size_t size() const { return ids.size(); }
};

}  // namespace attnctl
