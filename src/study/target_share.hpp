#pragma once

#include <cstdint>
#include <optional>

#include "results/result.hpp"
#include "study/state/moments.hpp"

namespace attnctl {

/// How much of their weight rows put on some keys, beside what even weights would: sums over rows that have
/// such a key.
struct TargetShare {
  std::uint64_t rows = 0;     // with a target
  std::uint64_t without = 0;  // rows left out, that have none
  BlockSum weight;            // on targets
  BlockSum total;             // of all weights of those rows: 1 each, less where a head has a sink
  BlockSum uniform;           // targets / visible keys

  void merge(const TargetShare& other);
  void save(StateWriter& out) const;
  void load(StateReader& in);

  [[nodiscard]] std::optional<double> value() const;  // weight / total
  [[nodiscard]] Cell share() const;                   // the same
  [[nodiscard]] Cell uniform_share() const;           // uniform / rows
};

}  // namespace attnctl
