#include "model/binding/same_values.hpp"

#include <algorithm>

namespace attnctl {

bool same_values(Checkpoint& weights, std::size_t a, std::size_t b) {
  const TensorInfo& first = weights.tensors()[a];
  const TensorInfo& second = weights.tensors()[b];
  if (first.dtype != second.dtype || first.shape != second.shape) return false;
  const bool same = std::ranges::equal(weights.tensor(a).bytes, weights.tensor(b).bytes);
  weights.release(a);
  weights.release(b);
  return same;
}

}  // namespace attnctl
