#pragma once

#include <cstdint>
#include <span>

namespace attnctl {

/// What the cost of a block depends on.
struct BlockSize {
  std::uint64_t number = 0;
  std::uint64_t sentences = 0;  // of the corpus
  std::uint64_t tokens = 0;     // of all its sequences
  std::uint64_t pairs = 0;      // the sum of tokens^2 over its sequences
  bool probe = false;           // of the probe: no sentences
};

/// A block, or the first of its sequences, that was computed to see how long it takes one worker.
struct BlockTrial {
  BlockSize size;
  double seconds = 0;
};

/// seconds = token * tokens + pair * pairs: products with weights, and what is done with patterns. Blocks of
/// the probe have their own, as other measures see them.
struct CostLaw {
  double token = 0;
  double pair = 0;
  double probe_token = 0;
  double deviation = 0;  // the largest of |law / trial - 1| over the trials of the corpus

  [[nodiscard]] double seconds(const BlockSize& size) const;
};

/// The least squares of law / trial - 1; a term that would be negative, or that the trials cannot tell from
/// the other one, is left out. At least one trial of the corpus; without one of the probe that costs as
/// much.
[[nodiscard]] CostLaw fit_cost_law(std::span<const BlockTrial> trials);

}  // namespace attnctl
