#pragma once

#include <cstdint>
#include <optional>

#include "results/results.hpp"
#include "study/state/moments.hpp"

namespace attnctl {

/// The share of attention weight on target keys, with the share under uniform attention. The sums cover the
/// rows that have a target.
struct TargetShare {
  std::uint64_t rows = 0;     // rows with a target
  std::uint64_t without = 0;  // rows left out because they have no target
  BlockSum weight;            // weight on targets
  BlockSum total;             // all weights of those rows: 1 per row, or less if the head has a sink
  BlockSum uniform;           // targets / visible keys

  void merge(const TargetShare& other);
  void save(StateWriter& out) const;
  void load(StateReader& in);

  [[nodiscard]] std::optional<double> value() const;  // weight / total
  [[nodiscard]] Cell share() const;                   // value() as a cell
  [[nodiscard]] Cell uniform_share() const;           // uniform / rows
};

}  // namespace attnctl
