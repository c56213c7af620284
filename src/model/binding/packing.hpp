#pragma once

#include <cstddef>

#include "model/config/config.hpp"
#include "model/families/family.hpp"

namespace attnctl {

/// Which of the projections that may share a tensor.
enum class PackedPart { query, key, value, gate, up, other };

/// Outputs of a tensor that are one projection's: `groups` times `each`, `stride` apart, from `first` on.
struct Slices {
  std::size_t first = 0;
  std::size_t groups = 1;
  std::size_t each = 0;
  std::size_t stride = 0;
  std::size_t all = 0;  // outputs of the tensor

  [[nodiscard]] std::size_t count() const { return groups * each; }
  /// The place in the tensor of output `index` of the projection.
  [[nodiscard]] std::size_t place(std::size_t index) const {
    return first + index / each * stride + index % each;
  }
  [[nodiscard]] bool contiguous() const { return groups == 1; }
};

/// All of a tensor.
[[nodiscard]] Slices whole(std::size_t outputs);

/// Of how many the number of heads must be a multiple.
[[nodiscard]] std::size_t heads_unit(Packing packing);

/// Where the query, key or value projection of a layer lies in a tensor of this packing.
[[nodiscard]] Slices attention_slices(Packing packing, PackedPart part, const AttentionConfig& attention);

/// The same for the two parts of a gated MLP of this inner width.
[[nodiscard]] Slices mlp_slices(Packing packing, PackedPart part, std::size_t width);

}  // namespace attnctl
