#include "attnctl/base/error.hpp"
#include "attnctl/model/model.hpp"

#include <algorithm>

namespace attnctl {

Linear Linear::outputs(std::size_t first, std::size_t count) const {
  Linear part = *this;
  part.stored =
      orientation == Orientation::in_out ? stored.col_range(first, count) : stored.row_range(first, count);
  if (!bias.empty()) part.bias = bias.subspan(first, count);
  return part;
}

Linear Linear::inputs(std::size_t first, std::size_t count) const {
  Linear part = *this;
  part.stored =
      orientation == Orientation::in_out ? stored.row_range(first, count) : stored.col_range(first, count);
  part.bias = {};
  return part;
}

OwnedMatrix<double> Linear::in_out_double() const {
  OwnedMatrix<double> out_matrix(in(), out());
  for (std::size_t i = 0; i < in(); ++i) {
    for (std::size_t j = 0; j < out(); ++j) {
      out_matrix(i, j) = orientation == Orientation::in_out ? stored(i, j) : stored(j, i);
    }
  }
  return out_matrix;
}

void LookupTable::row(std::size_t r, std::span<float> out) const {
  const std::size_t bytes = width() * size_of(tensor.dtype);
  convert(tensor.dtype, tensor.bytes.subspan(r * bytes, bytes), out);
}

std::string to_string(HeadId head) {
  return fmt::format("{}.{}", head.layer, head.head);
}

bool ModelConfig::position_in_scores() const {
  return std::ranges::any_of(layers,
                             [](const LayerConfig& layer) { return layer.attention.rotary != nullptr; });
}

}  // namespace attnctl
