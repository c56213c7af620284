#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "tokenizer/encoding.hpp"
#include "tokenizer/part_config.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// Number of characters at the ends of a token that are white space, or represent a space in byte-level
/// vocabularies.
struct EdgeSpace {
  std::uint32_t leading = 0;
  std::uint32_t trailing = 0;
};
[[nodiscard]] EdgeSpace edge_space(std::string_view token);

/// The tokens of a text on their way through the post-processors.
struct TokenizedText {
  /// A token whose string is its text instead of the vocabulary's: an added token that was found, with white
  /// space around it, or the token of TokenModel::verbatim().
  struct Found {
    std::size_t token = 0;  // index in the encoding
    EdgeSpace space;
  };

  Encoding encoding;
  std::vector<Found> found;  // in ascending order
};

/// Adds special tokens. Takes one text, or two for a pair, and may leave any number; the caller joins them.
using PostProcessor = std::function<void(std::vector<TokenizedText>&)>;

/// Returns the post-processor that a part of tokenizer.json describes. `vocabulary` must outlive it. Throws
/// Error(bad_input).
[[nodiscard]] PostProcessor make_post_processor(const PartConfig& config, const Vocabulary& vocabulary);

[[nodiscard]] PostProcessor make_template(const PartConfig& config, const Vocabulary& vocabulary);

/// A special token that a post-processor adds.
struct SpecialToken {
  std::int64_t id = 0;
  std::int64_t type_id = 0;
  std::uint8_t sequence = 0;
};
void push_back(TokenizedText& text, const SpecialToken& token);

/// Returns `value`, which `config` has under `key`, as an id from 0 to 2^32 - 1. Throws Error(bad_input).
[[nodiscard]] std::int64_t read_id(const PartConfig& config, std::string_view key,
                                   const PartConfig::Json& value);

}  // namespace attnctl
