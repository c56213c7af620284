#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/encoding.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// A model's tokenizer, as described by tokenizer.json or by the files that older models have instead. Safe
/// to share between threads; each thread has its own State.
class Tokenizer {
 public:
  /// Buffers and caches of one thread.
  class State;
  struct StateDelete {
    void operator()(State* state) const;
  };
  using StatePtr = std::unique_ptr<State, StateDelete>;

  /// Opens the tokenizer of a model's directory. Throws Error(bad_input) if a file is damaged, has an
  /// unsupported part, or there is none.
  [[nodiscard]] static Tokenizer open(const std::filesystem::path& directory);
  [[nodiscard]] static Tokenizer open(const TokenizerOrigin& origin);

  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

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
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace attnctl
