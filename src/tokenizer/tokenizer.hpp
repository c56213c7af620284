#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.hpp"

namespace attnctl {

struct TokenizerFile;

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
  /// Calls `visit` with each vector.
  template <typename Visit>
  void for_each_list(Visit visit) {
    visit(ids);
    visit(type_ids);
    visit(offsets);
    visit(words);
    visit(special);
    visit(sequence);
  }
};

/// A model's tokenizer, as described by tokenizer.json or by the files that older models have instead. Safe
/// to share between threads; each thread has its own State.
class Tokenizer {
 public:
  /// Buffers and caches of one thread.
  class State;
  using StatePtr = std::shared_ptr<State>;

  /// Opens the tokenizer of a model's directory. Throws Error(bad_input) if a file is damaged, has an
  /// unsupported part, or there is none.
  [[nodiscard]] static Tokenizer open(const std::filesystem::path& directory);
  [[nodiscard]] static Tokenizer open(const TokenizerOrigin& origin);

  [[nodiscard]] StatePtr make_state() const;

  /// Encodes a text, or a pair of texts, with the special tokens around them. Throws Error(bad_input) with
  /// the byte offset if a text is not UTF-8, Error(limit) if it has 4 GiB or more.
  void encode(std::string_view text, std::optional<std::string_view> pair, State& state,
              Encoding& encoding) const;

  [[nodiscard]] const Vocabulary& vocabulary() const;

  /// The JSON of /truncation and /padding, which are not applied; empty if the file has none.
  [[nodiscard]] const std::string& truncation() const;
  [[nodiscard]] const std::string& padding() const;

  /// Returns the text of a token from the file's decoder: " the" for "Ġthe", "ing" for "##ing", <0xE2> for a
  /// byte that is not a whole character.
  [[nodiscard]] std::string shown(std::int64_t id) const;

 private:
  struct Parts;
  explicit Tokenizer(TokenizerFile& file);
  std::shared_ptr<const Parts> parts_;
};

}  // namespace attnctl
