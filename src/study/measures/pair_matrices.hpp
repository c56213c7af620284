#pragma once

#include <cstdint>
#include <vector>

#include "study/measure.hpp"
#include "study/results.hpp"

namespace attnctl {

/// A measure of all pairs, as results have it.
struct PairMatrix {
  const char* name;
  bool low_is_alike;
  std::uint64_t rows;
  std::vector<float> values;  // [heads, heads]; NaN: undefined
};

/// Adds the section and the table of all pairs, and to the page those that are most alike and least.
void add_pair_matrices(StudyResults& results, const StudyShape& shape, std::vector<PairMatrix> matrices);

}  // namespace attnctl
