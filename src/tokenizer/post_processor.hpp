#pragma once

#include "attnctl/tokenizer/encoding.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/part_config.hpp"

namespace attnctl {

/// Adds special tokens and joins the two texts of a pair.
class PostProcessor {
 public:
  PostProcessor() = default;
  virtual ~PostProcessor() = default;
  PostProcessor(const PostProcessor&) = delete;
  PostProcessor& operator=(const PostProcessor&) = delete;
  /// `encodings` holds one, or two for a pair, when the first processor sees it. A processor may leave any
  /// number (a template gives one a piece); a Sequence hands them to the next, and the caller joins them.
  virtual void process(std::vector<Encoding>& encodings) const = 0;
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
