#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tokenizer/vocabulary.hpp"

namespace attnctl::tokenizer {

struct TokenizerFile;

/// Largest size of a text in bytes. Tokenizing takes up to about 150 bytes of memory per byte of the text.
inline constexpr std::size_t kLongestText = std::size_t{16} << 20;

/// The code points [begin, end) of a text.
struct TextRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  friend bool operator==(const TextRange&, const TextRange&) = default;
};

/// The tokens of a text or of a pair of texts. Each vector has one element per token.
struct Encoding {
  std::vector<std::int64_t> ids;
  /// Token types: 0 for the first text and 1 for the second, unless the post-processor sets other types.
  std::vector<std::int64_t> type_ids;
  /// The token's range in its text, the first or the second; {0, 0} for tokens that the post-processor added.
  std::vector<TextRange> offsets;
  /// The index of the token's word, from 0 in each text. The words are the pieces into which the
  /// pre-tokenizer cuts the text, and the added tokens. nullopt for tokens that the post-processor added.
  std::vector<std::optional<std::uint32_t>> words;
  std::vector<std::uint8_t> special;  // 1: the post-processor added the token
  /// 0: the token belongs to the first text, 1: to the second. The post-processor also sets a value for the
  /// tokens that it adds, usually that of the text before the token.
  std::vector<std::uint8_t> sequence;

  [[nodiscard]] std::size_t size() const { return ids.size(); }
  /// Calls `visit` with the member pointer of each of the vectors, such as &Encoding::ids.
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
  /// Encodes a text or a pair of texts, with the special tokens of the post-processor, and replaces the
  /// content of `encoding` by the result. Throws Error(bad_input) if a text is not UTF-8 (with the byte
  /// offset), has more than kLongestText bytes, or cannot be encoded, for example because the tokenizer has
  /// no unknown token. Throws Error(limit) if the normalizer or the pre-tokenizer makes the text far longer
  /// or has too many steps.
  void encode(std::string_view text, std::optional<std::string_view> pair, State& state,
              Encoding& encoding) const;
  [[nodiscard]] const Vocabulary& vocabulary() const;
  /// Returns the object {"truncation": ..., "padding": ...} with the values of these keys in tokenizer.json,
  /// which are null if missing. encode() does not apply them.
  [[nodiscard]] const nlohmann::ordered_json& unapplied() const;

 private:
  struct Parts;
  explicit Tokenizer(TokenizerFile& file);
  std::shared_ptr<const Parts> parts_;
};

/// Throws Error(bad_input), which says that the model named `model` has no tokenizer and what to do instead.
[[noreturn]] void refuse_text(std::string_view model);

}  // namespace attnctl::tokenizer
