#pragma once

#include <cstddef>

namespace attnctl {

/// The division of images into patches, row by row from the top left corner. Pixels of partial patches are
/// ignored.
struct PatchGrid {
  std::size_t channels = 0;  // 0 if inputs are not images
  std::size_t height = 0, width = 0;
  std::size_t patch_height = 0, patch_width = 0;

  [[nodiscard]] bool present() const { return channels > 0; }
  [[nodiscard]] std::size_t rows() const { return height / patch_height; }
  [[nodiscard]] std::size_t columns() const { return width / patch_width; }
  [[nodiscard]] std::size_t patches() const { return rows() * columns(); }
  /// Returns the number of values of a patch [channels, patch_height, patch_width].
  [[nodiscard]] std::size_t patch_size() const { return channels * patch_height * patch_width; }
  [[nodiscard]] std::size_t image_size() const { return channels * height * width; }
};

}  // namespace attnctl
