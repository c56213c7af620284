#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace attnctl {

/// Code points of the text as it was given: [begin, end).
struct TextRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  friend bool operator==(const TextRange&, const TextRange&) = default;
};

/// What a tokenizer makes of a text, or of a pair of texts. All vectors have one entry a token.
struct Encoding {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> type_ids;  // 0, or 1 for the second text; as the post-processor says
  std::vector<TextRange> offsets;      // into the token's own text; (0, 0) for added special tokens
  /// Index of the pre-tokenized piece that the token is of, counted in each text from 0; nullopt for special
  /// tokens that the post-processor added.
  std::vector<std::optional<std::uint32_t>> words;
  std::vector<std::uint8_t> special;   // 1 for tokens that the post-processor added
  std::vector<std::uint8_t> sequence;  // 0 first text, 1 second; that of the text it stands by for added ones

  [[nodiscard]] std::size_t size() const { return ids.size(); }
};

}  // namespace attnctl
