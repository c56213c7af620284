#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/files/tokenizer_file.hpp"

namespace attnctl {

/// A token of a piece: bytes [begin, end) of it.
struct PieceToken {
  std::int32_t id = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

/// Cuts a piece into tokens of a vocabulary.
class TokenModel {
 public:
  /// Scratch and cache of one worker.
  class State {
   public:
    State() = default;
    virtual ~State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
  };

  TokenModel() = default;
  virtual ~TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;

  [[nodiscard]] virtual std::unique_ptr<State> make_state() const = 0;
  /// Appends the tokens of `piece` (UTF-8, not empty) to `tokens`. `state` is one that make_state() gave.
  virtual void tokenize(std::string_view piece, State& state, std::vector<PieceToken>& tokens) const = 0;
  /// The id of a token; nullopt where the vocabulary has none.
  [[nodiscard]] virtual std::optional<std::int32_t> id(std::string_view token) const = 0;
  /// The token whose string is not the vocabulary's but the text it stands for; -1: there is none.
  [[nodiscard]] virtual std::int32_t verbatim() const { return -1; }
};
using TokenModelPtr = std::unique_ptr<const TokenModel>;

/// The model of a tokenizer's file, whose vocabulary and merges it may take. Throws Error(bad_input).
[[nodiscard]] TokenModelPtr make_token_model(TokenizerFile& file);

}  // namespace attnctl
