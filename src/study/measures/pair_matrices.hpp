#pragma once

#include <cstdint>
#include <vector>

#include "study/measure.hpp"
#include "study/results.hpp"

namespace attnctl {

/// The values of one measure for all pairs of heads.
struct PairMatrix {
  const char* name;
  bool low_is_alike;
  std::uint64_t rows;
  std::vector<float> values;  // [heads, heads]; NaN: undefined
};

/// Adds the section and table of all pairs, and the most and least similar pairs to the text.
void add_pair_matrices(StudyResults& results, const StudyShape& shape, std::vector<PairMatrix> matrices);

}  // namespace attnctl
