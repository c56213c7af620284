#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace attnctl::test {

/// A picture as pixels.
struct Raster {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<std::uint8_t> rgb;  // [height, width, 3]

  [[nodiscard]] const std::uint8_t* at(std::size_t x, std::size_t y) const {
    return rgb.data() + 3 * (y * width + x);
  }
};

/// Reads a PNG file.
Raster read_png(const std::string& path);

/// Draws an SVG on white with librsvg, at `zoom` pixels per unit. Returns nullopt if rsvg-convert is not
/// installed.
std::optional<Raster> rasterised(const std::string& svg, int zoom = 1);

}  // namespace attnctl::test
