#pragma once

#include <cstdint>
#include <span>

namespace attnctl {

/// The properties of a block that its cost depends on.
struct BlockSize {
  std::uint64_t number = 0;
  std::uint64_t sentences = 0;  // sentences of the corpus
  std::uint64_t tokens = 0;     // tokens of all sequences
  std::uint64_t pairs = 0;      // sum of tokens^2 over the sequences
  bool probe = false;           // true for a block of the probe; it has no sentences
};

/// A timed block (or its first sequences), with the seconds that one worker needed.
struct BlockTrial {
  BlockSize size;
  double seconds = 0;
};

/// A linear cost model: seconds = token * tokens + pair * pairs.
/// `token` covers the products with weights, `pair` the work on patterns. Probe blocks have their own rate
/// (`probe_token`), because other measures process them.
struct CostLaw {
  double token = 0;
  double pair = 0;
  double probe_token = 0;
  double deviation = 0;  // largest |law / trial - 1| over the trials of the corpus

  [[nodiscard]] double seconds(const BlockSize& size) const;
};

/// Returns the least-squares fit of law / trial - 1. A term is left out if it would be negative, or if the
/// trials cannot separate it from the other term. The trials must include a block of the corpus; throws
/// std::logic_error if there is none. If there is no probe trial, probe_token equals token.
[[nodiscard]] CostLaw fit_cost_law(std::span<const BlockTrial> trials);

}  // namespace attnctl
