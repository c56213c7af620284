#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.hpp"

namespace attnctl::tokenizer {

struct TokenizerFile;

/// The code points [begin, end) of a text.
struct TextRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  friend bool operator==(const TextRange&, const TextRange&) = default;
};

/// The tokens of a text or of a pair of texts. Each vector has one element per token.
struct Encoding {
  std::vector<std::int64_t> ids;
  std::vector<std::int64_t> type_ids;  // token types; by default 0 for the first text and 1 for the second
  /// Range in the text that contains the token; {0, 0} for tokens that the post-processor added.
  std::vector<TextRange> offsets;
  /// The number of the token's word, as cut by the pre-tokenizer, from 0 in each text; nullopt for tokens
  /// that the post-processor added.
  std::vector<std::optional<std::uint32_t>> words;
  std::vector<std::uint8_t> special;  // 1: the post-processor added the token
  /// 0: the token belongs to the first text, 1: to the second. A token that the post-processor added has the
  /// value of the text before it, or of the first text if there is none before it; but the </s> of
  /// RobertaProcessing directly before the second text has 1.
  std::vector<std::uint8_t> sequence;

  [[nodiscard]] std::size_t size() const { return ids.size(); }
  /// Calls `visit` with a pointer to each of the vectors, such as &Encoding::ids.
  template <typename Visit>
  static void for_each_list(Visit visit) {
    const auto visit_all = [&](auto... lists) { (visit(lists), ...); };
    visit_all(&Encoding::ids, &Encoding::type_ids, &Encoding::offsets, &Encoding::words, &Encoding::special,
              &Encoding::sequence);
  }
};

/// A model's tokenizer, read from tokenizer.json, from the files that older models have instead, or from a
/// GGUF file. Several threads may use one tokenizer at once, each with its own State.
class Tokenizer {
 public:
  /// The buffers and caches that one thread needs for encoding.
  struct State;
  using StatePtr = std::shared_ptr<State>;

  /// Throws Error(bad_input) if no tokenizer file exists, or if a file is damaged or not supported.
  [[nodiscard]] static Tokenizer open(const TokenizerOrigin& origin);

  [[nodiscard]] StatePtr make_state() const;
  /// Encodes a text or a pair of texts into `encoding`, replacing its content, and adds the special tokens.
  /// Throws Error(bad_input) if a text is not UTF-8 (with the byte offset) or the tokenizer cannot encode it,
  /// for example without an unknown token; and Error(limit) if a text has 4 GiB or more, or becomes too long.
  void encode(std::string_view text, std::optional<std::string_view> pair, State& state,
              Encoding& encoding) const;
  [[nodiscard]] const Vocabulary& vocabulary() const;
  // The JSON texts of /truncation and /padding in tokenizer.json; empty if there is none. encode() does
  // neither.
  [[nodiscard]] const std::string& truncation() const;
  [[nodiscard]] const std::string& padding() const;
  /// Returns the text that the tokenizer's decoder makes from a token: " the" for "Ġthe", "ing" for "##ing".
  /// A byte that is not part of a complete UTF-8 character becomes its number, such as "<0xE2>". Returns the
  /// token itself if the tokenizer has no decoder, and "" if no token has the id.
  [[nodiscard]] std::string shown(std::int64_t id) const;

 private:
  struct Parts;
  explicit Tokenizer(TokenizerFile& file);
  std::shared_ptr<const Parts> parts_;
};

}  // namespace attnctl::tokenizer
