#include "report/colour_map.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace attnctl::report {
namespace {

constexpr Colour rgb(std::uint32_t code) {
  return {static_cast<std::uint8_t>(code >> 16U), static_cast<std::uint8_t>(code >> 8U & 0xFFU),
          static_cast<std::uint8_t>(code & 0xFFU)};
}

constexpr std::array kBlueWhiteRed{rgb(0x053061), rgb(0x2166ac), rgb(0x4393c3), rgb(0x92c5de),
                                   rgb(0xd1e5f0), rgb(0xffffff), rgb(0xfddbc7), rgb(0xf4a582),
                                   rgb(0xd6604d), rgb(0xb2182b), rgb(0x67001f)};
/// Nine colours with equal steps of lightness (CIELAB L* from 100 to 21), so that equal differences of values
/// look equal.
constexpr std::array kWhiteBlue{rgb(0xffffff), rgb(0xd3e5f3), rgb(0xa4cde3), rgb(0x79b3d6), rgb(0x4e99c9),
                                rgb(0x2d7dbb), rgb(0x1562a9), rgb(0x08488e), rgb(0x08306b)};

std::uint8_t mixed(std::uint8_t from, std::uint8_t to, double share) {
  return static_cast<std::uint8_t>(std::lround(from + (to - from) * share));
}

/// The six levels of each colour in xterm's 6 x 6 x 6 colour cube.
constexpr std::array<int, 6> kLevels{0, 95, 135, 175, 215, 255};

int nearest_level(int value) {
  const auto* const found = std::min_element(kLevels.begin(), kLevels.end(), [&](int a, int b) {
    return std::abs(a - value) < std::abs(b - value);
  });
  return static_cast<int>(found - kLevels.begin());
}

}  // namespace

std::span<const Colour> colour_anchors(bool diverging) {
  return diverging ? std::span<const Colour>(kBlueWhiteRed) : std::span<const Colour>(kWhiteBlue);
}

Colour colour_at(bool diverging, double place) {
  const std::span<const Colour> anchors = colour_anchors(diverging);
  const double scaled = std::clamp(place, 0.0, 1.0) * static_cast<double>(anchors.size() - 1);
  const std::size_t before = std::min(static_cast<std::size_t>(scaled), anchors.size() - 2);
  const double share = scaled - static_cast<double>(before);
  const Colour& from = anchors[before];
  const Colour& to = anchors[before + 1];
  return {mixed(from.red, to.red, share), mixed(from.green, to.green, share),
          mixed(from.blue, to.blue, share)};
}

int terminal_colour(Colour colour) {
  const std::array<int, 3> want{colour.red, colour.green, colour.blue};
  const auto distance = [&](const std::array<int, 3>& have) {
    int sum = 0;
    for (std::size_t i = 0; i < 3; ++i) sum += (have[i] - want[i]) * (have[i] - want[i]);
    return sum;
  };
  std::array<int, 3> cube{};
  std::array<int, 3> levels{};
  for (std::size_t i = 0; i < 3; ++i) {
    cube[i] = nearest_level(want[i]);
    levels[i] = kLevels[static_cast<std::size_t>(cube[i])];
  }
  const int mean = (want[0] + want[1] + want[2]) / 3;
  const int step = std::clamp((mean - 3) / 10, 0, 23);  // the greys are 8, 18, ..., 238
  const int grey = 8 + 10 * step;
  if (distance({grey, grey, grey}) < distance(levels)) return 232 + step;
  return 16 + 36 * cube[0] + 6 * cube[1] + cube[2];
}

std::string hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

}  // namespace attnctl::report
