#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "study/corpus.hpp"
#include "support/memory_checkpoint.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::test {

/// An encoder with two layers of five heads whose weights are constructed, so that the function of each head
/// is known. Each seed draws different directions for the features in the residual stream: the token, its
/// position, and the token before it.
struct PlantedModel {
  static constexpr std::size_t kOrdinary = 32;   // tokens that are not special
  static constexpr std::size_t kPositions = 32;  // maximum length of a sequence
  static constexpr std::int64_t kBegin = 32, kEnd = 33;

  /// Returns counts in which each token is rarer than the one before it, as the rare-token head assumes.
  [[nodiscard]] static study::TokenFrequencies frequencies();

  MemoryModel model;
  std::map<std::string, std::string> roles;  // by head: "positional -1"

  [[nodiscard]] static PlantedModel make(std::uint64_t seed);
  /// Returns a model of the same shape whose weights are drawn from N(0, 0.02), as in untrained encoders.
  [[nodiscard]] static MemoryModel random(std::uint64_t seed);
  /// Returns the tokens t0 to t31, [CLS] and [SEP].
  [[nodiscard]] static tokenizer::Vocabulary vocabulary();
  /// Returns lines {"ids": [...]} of 16 to 24 tokens of five different types, between [CLS] and [SEP].
  [[nodiscard]] static std::string corpus(std::uint64_t seed, std::size_t sentences);
};

}  // namespace attnctl::test
