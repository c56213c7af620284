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

/// A model's own tokenizer: the pipeline that its tokenizer.json describes (or the files that stand for one).
/// Shared by workers; each has its own State.
class Tokenizer {
 public:
  /// Buffers and caches of one worker.
  class State;
  struct StateDelete {
    void operator()(State* state) const;
  };
  using StatePtr = std::unique_ptr<State, StateDelete>;

  /// Opens the tokenizer of a model's directory. Throws Error(bad_input) where a file is damaged, holds a
  /// part that is not supported, or none is there.
  [[nodiscard]] static Tokenizer open(const std::filesystem::path& directory);
  [[nodiscard]] static Tokenizer open(const TokenizerOrigin& origin);

  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  [[nodiscard]] StatePtr make_state() const;

  /// The tokens of a text, or of a pair of texts, with the special tokens that the model wants around them.
  /// Throws Error(bad_input): text that is not UTF-8 (the byte offset is named), or 4 GiB and more.
  void encode(std::string_view text, std::optional<std::string_view> pair, State& state,
              Encoding& encoding) const;

  /// Ids, tokens and which of them are special.
  [[nodiscard]] const Vocabulary& vocabulary() const;

  /// What the file says of truncation and padding, which are read and not applied; empty where it says
  /// nothing.
  [[nodiscard]] const std::string& truncation() const;
  [[nodiscard]] const std::string& padding() const;

  /// A token as the text that it stands for, by the file's decoder: "Ġthe" is " the", "##ing" is "ing"; what
  /// is no whole character is shown as <0xE2>.
  [[nodiscard]] std::string shown(std::int64_t id) const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace attnctl
