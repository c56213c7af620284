#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/encoding.hpp"
#include "tokenizer/files/part_config.hpp"

namespace attnctl {

/// How many characters at the ends of a token are white space, or stand for a space in byte-level
/// vocabularies.
struct EdgeSpace {
  std::uint32_t leading = 0;
  std::uint32_t trailing = 0;
};
[[nodiscard]] EdgeSpace edge_space(std::string_view token);

/// A text's tokens on their way through the post-processors.
struct TokenizedText {
  /// A token whose string is its text, not what the vocabulary has: an added one that was found, which may
  /// hold white space beside the token itself, or one that TokenModel::verbatim() names.
  struct Found {
    std::size_t token = 0;  // index in the encoding
    EdgeSpace space;
  };

  Encoding encoding;
  std::vector<Found> found;  // by ascending token
};

/// Adds special tokens and joins the two texts of a pair.
class PostProcessor {
 public:
  PostProcessor() = default;
  virtual ~PostProcessor() = default;
  PostProcessor(const PostProcessor&) = delete;
  PostProcessor& operator=(const PostProcessor&) = delete;
  /// `texts` holds one, or two for a pair, when the first processor sees it. A processor may leave any number
  /// (a template gives one a piece); a Sequence hands them to the next, and the caller joins them.
  virtual void process(std::vector<TokenizedText>& texts) const = 0;
  /// How many special tokens are added to one text, or to a pair.
  [[nodiscard]] virtual std::size_t added(bool pair) const = 0;
};
using PostProcessorPtr = std::unique_ptr<const PostProcessor>;

/// Gives the string of an id, as the vocabulary has it.
class TokenStrings {
 public:
  virtual ~TokenStrings() = default;
  [[nodiscard]] virtual std::string_view token(std::int64_t id) const = 0;
};

/// The post-processor that a part of tokenizer.json describes; `strings` must outlive it. Throws
/// Error(bad_input).
[[nodiscard]] PostProcessorPtr make_post_processor(const PartConfig& config, const TokenStrings& strings);

}  // namespace attnctl
