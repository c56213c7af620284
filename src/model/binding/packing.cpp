#include "model/binding/packing.hpp"

#include <array>
#include <numeric>

namespace attnctl {
namespace {

/// Which of q, k, v is meant, in this order.
std::size_t place_of(PackedPart part) {
  if (part == PackedPart::query) return 0;
  return part == PackedPart::key ? 1 : 2;
}

/// Groups of three slices, `widths` wide in the order in which they are stored; the one at `at` is meant.
Slices grouped(std::size_t groups, const std::array<std::size_t, 3>& widths, std::size_t at) {
  const std::size_t stride = widths[0] + widths[1] + widths[2];
  return {.first = std::accumulate(widths.begin(), widths.begin() + static_cast<std::ptrdiff_t>(at),
                                   std::size_t{0}),
          .groups = groups,
          .each = widths[at],
          .stride = stride,
          .all = groups * stride};
}

}  // namespace

Slices whole(std::size_t outputs) {
  return {.first = 0, .groups = 1, .each = outputs, .stride = outputs, .all = outputs};
}

std::size_t heads_unit(Packing packing) {
  return packing == Packing::in_four_blocks ? 4 : 1;
}

Slices attention_slices(Packing packing, PackedPart part, const AttentionConfig& attention) {
  const std::size_t k = attention.d_head;
  const std::array<std::size_t, 3> widths = {attention.query_slices() * k, attention.kv_heads * k,
                                             attention.kv_heads * attention.d_value};
  const std::size_t at = place_of(part);
  switch (packing) {
    case Packing::query_key_value:
      return grouped(1, widths, at);
    case Packing::by_head:
      return grouped(attention.heads, {k, k, attention.d_value}, at);
    case Packing::by_key_head:
      return grouped(attention.kv_heads, {attention.heads / attention.kv_heads * k, k, attention.d_value},
                     at);
    case Packing::in_four_blocks: {
      const std::size_t quarter = attention.heads / 4 * k;
      constexpr std::array<std::size_t, 3> order = {0, 2, 1};  // q, v, k
      return grouped(4, {quarter, quarter, quarter}, order[at]);
    }
    case Packing::whole:
    case Packing::gate_up:
    case Packing::gate_up_by_turns:
      break;
  }
  return whole(widths[at]);
}

Slices mlp_slices(Packing packing, PackedPart part, std::size_t width) {
  if (packing == Packing::gate_up_by_turns) {
    return {.first = part == PackedPart::gate ? std::size_t{0} : std::size_t{1},
            .groups = width,
            .each = 1,
            .stride = 2,
            .all = 2 * width};
  }
  if (packing != Packing::gate_up) return whole(width);
  return {.first = part == PackedPart::gate ? 0 : width,
          .groups = 1,
          .each = width,
          .stride = width,
          .all = 2 * width};
}

}  // namespace attnctl
