#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "study/corpus/token_frequencies.hpp"
#include "support/memory_checkpoint.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::test {

/// An encoder of two layers of five heads whose weights are set by hand, so that what each head does is
/// known. Every seed draws other features: the directions in which the stream holds a token, its position,
/// and the token before it.
struct PlantedModel {
  static constexpr std::size_t kOrdinary = 32;   // tokens that are not special
  static constexpr std::size_t kPositions = 32;  // of a sequence
  static constexpr std::int64_t kBegin = 32, kEnd = 33;

  /// Counts by which each token is rarer than the one before it, as the rare-token head takes them to be.
  [[nodiscard]] static TokenFrequencies frequencies();

  MemoryModel model;
  std::map<std::string, std::string> roles;  // by head: "positional -1"

  [[nodiscard]] static PlantedModel make(std::uint64_t seed);
  /// The same shape, every weight drawn from N(0, 0.02), as untrained encoders have them.
  [[nodiscard]] static MemoryModel random(std::uint64_t seed);
  /// Tokens t0 to t31, [CLS] and [SEP].
  [[nodiscard]] static Vocabulary vocabulary();
  /// Lines {"ids": [...]} of 16 to 24 tokens, of five kinds each, between [CLS] and [SEP].
  [[nodiscard]] static std::string corpus(std::uint64_t seed, std::size_t sentences);
};

}  // namespace attnctl::test
