#pragma once

#include <span>

#include "base/dtype.hpp"
#include "input/batch.hpp"

namespace attnctl {

/// The sequence of an image: a class token, then its patches as rows of [patches, channels * height * width
/// of a patch], named "[CLS]" and "patch R,C". `pixels` is [channels, height, width] as the grid says.
[[nodiscard]] Sequence make_pixel_sequence(std::span<const float> pixels, const PatchGrid& grid);

}  // namespace attnctl
