#include "input/pixels.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

namespace attnctl {
namespace {

/// The values of a patch to out [channels, patch_height, patch_width].
void cut_patch(std::span<const float> pixels, const PatchGrid& grid, std::size_t row, std::size_t column,
               std::span<float> out) {
  for (std::size_t line = 0; line < grid.channels * grid.patch_height; ++line) {
    const std::size_t channel = line / grid.patch_height;
    const std::size_t y = row * grid.patch_height + line % grid.patch_height;
    const std::size_t begin = (channel * grid.height + y) * grid.width + column * grid.patch_width;
    std::ranges::copy(pixels.subspan(begin, grid.patch_width),
                      out.subspan(line * grid.patch_width, grid.patch_width).begin());
  }
}

}  // namespace

Sequence make_pixel_sequence(std::span<const float> pixels, const PatchGrid& grid) {
  Sequence sequence;
  sequence.patches = OwnedMatrix<float>(grid.patches(), grid.patch_size());
  sequence.tokens.emplace_back("[CLS]");
  sequence.special.assign(grid.patches() + 1, 0);
  sequence.special.front() = 1;
  for (std::size_t patch = 0; patch < grid.patches(); ++patch) {
    const std::size_t row = patch / grid.columns();
    const std::size_t column = patch % grid.columns();
    cut_patch(pixels, grid, row, column, sequence.patches.view().row(patch));
    sequence.tokens.push_back(fmt::format("patch {},{}", row, column));
  }
  return sequence;
}

}  // namespace attnctl
