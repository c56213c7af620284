#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attn {

/// One token of a text.
struct Token {
  std::int64_t id = 0;
  std::string piece;  // the token's string in the vocabulary, such as "##ing" or "Ġthe"
  /// The token covers code points [begin, end) of its text. Both are 0 if the tokenizer added the token.
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int64_t type = 0;    // token type; by default 0 for the first text and 1 for the second
  bool is_special = false;  // true if the tokenizer added the token: [CLS], <s>, ...
};

/// The tokenizer of a model. Copies share their data. Several threads may use one tokenizer at once.
class Tokenizer {
 public:
  /// Opens the tokenizer of a model without reading weights. `model` has the same meaning as in Model::open.
  /// Throws Error(environment) if the model cannot be found or a file cannot be read, and Error(bad_input) if
  /// the model has no tokenizer, or if its tokenizer is invalid or not supported.
  [[nodiscard]] static Tokenizer open(const std::string& model);

  /// Returns the tokens of a text or of a pair of texts, including the special tokens that the tokenizer
  /// adds. Throws Error(bad_input) if a text is not UTF-8 or the tokenizer cannot encode it, and Error(limit)
  /// if a text is too long (about 4 GiB).
  [[nodiscard]] std::vector<Token> encode(std::string_view text,
                                          std::optional<std::string_view> pair = {}) const;

  [[nodiscard]] std::size_t size() const;  // number of token ids, including unused ids
  /// Returns the lowest id of a vocabulary string; nullopt if the vocabulary does not contain it.
  [[nodiscard]] std::optional<std::int64_t> id(std::string_view piece) const;
  /// Returns the vocabulary string of an id; nullopt if no token has this id.
  [[nodiscard]] std::optional<std::string> piece(std::int64_t id) const;

 private:
  struct Parts;
  explicit Tokenizer(std::shared_ptr<Parts> parts);
  std::shared_ptr<Parts> parts_;
};

}  // namespace attn
