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
  std::string piece;        // as in the vocabulary: "##ing", "Ġthe"
  std::size_t begin = 0;    // code points [begin, end) of its text; both 0 if the tokenizer added the token
  std::size_t end = 0;      //
  std::int64_t type = 0;    // token type; by default 0, and 1 for the second text of a pair
  bool is_special = false;  // added by the tokenizer: [CLS], <s>, ...
};

/// The tokenizer of a model. Copies share everything. Safe to use from several threads.
class Tokenizer {
 public:
  /// Opens the tokenizer of a model, named as for Model::open. Reads no weights. Throws Error(environment) if
  /// the model cannot be found, Error(bad_input) if it has no tokenizer, or one with unsupported parts.
  [[nodiscard]] static Tokenizer open(const std::string& model);

  /// Returns the tokens of a text or a pair of texts, with the special tokens around them. Throws
  /// Error(bad_input) if a text is not UTF-8, Error(limit) if it has 4 GiB or more.
  [[nodiscard]] std::vector<Token> encode(std::string_view text,
                                          std::optional<std::string_view> pair = {}) const;

  [[nodiscard]] std::size_t size() const;  // number of ids, unused ones included
  [[nodiscard]] std::optional<std::int64_t> id(std::string_view piece) const;
  [[nodiscard]] std::optional<std::string> piece(std::int64_t id) const;

 private:
  struct Parts;
  explicit Tokenizer(std::shared_ptr<Parts> parts);
  std::shared_ptr<Parts> parts_;
};

}  // namespace attn
