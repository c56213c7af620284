#include "report/colour_map.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace attnctl {
namespace {

constexpr std::array<Colour, 11> kBlueWhiteRed{{{0x05, 0x30, 0x61},
                                                {0x21, 0x66, 0xac},
                                                {0x43, 0x93, 0xc3},
                                                {0x92, 0xc5, 0xde},
                                                {0xd1, 0xe5, 0xf0},
                                                {0xff, 0xff, 0xff},
                                                {0xfd, 0xdb, 0xc7},
                                                {0xf4, 0xa5, 0x82},
                                                {0xd6, 0x60, 0x4d},
                                                {0xb2, 0x18, 0x2b},
                                                {0x67, 0x00, 0x1f}}};
/// Nine colours with equal steps of lightness (CIELAB L* from 100 to 21), so that equal differences look
/// equal.
constexpr std::array<Colour, 9> kWhiteBlue{{{0xff, 0xff, 0xff},
                                            {0xd3, 0xe5, 0xf3},
                                            {0xa4, 0xcd, 0xe3},
                                            {0x79, 0xb3, 0xd6},
                                            {0x4e, 0x99, 0xc9},
                                            {0x2d, 0x7d, 0xbb},
                                            {0x15, 0x62, 0xa9},
                                            {0x08, 0x48, 0x8e},
                                            {0x08, 0x30, 0x6b}}};

std::uint8_t mixed(std::uint8_t from, std::uint8_t to, double share) {
  return static_cast<std::uint8_t>(std::lround(from + (to - from) * share));
}

/// The levels of xterm's 6 x 6 x 6 colour cube.
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
  const int step = std::clamp((mean - 3) / 10, 0, 23);  // greys are 8, 18, ..., 238
  const int grey = 8 + 10 * step;
  if (distance({grey, grey, grey}) < distance(levels)) return 232 + step;
  return 16 + 36 * cube[0] + 6 * cube[1] + cube[2];
}

std::string hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

}  // namespace attnctl
