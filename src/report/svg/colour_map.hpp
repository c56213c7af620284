#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace attnctl {

struct Colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
};

/// The anchors of a scale, from its low end to its high one, evenly spaced. Colours of ColorBrewer (Brewer
/// and Harrower): RdBu reversed with a white middle, and Blues with a white end, dark
/// enough in its middle for white ink.
[[nodiscard]] std::span<const Colour> colour_anchors(bool diverging);

/// The colour at `place`, 0 (low end) to 1 (high end), linear between anchors.
[[nodiscard]] Colour colour_at(bool diverging, double place);

/// The nearest of the 216 colours and 24 greys that a terminal of 256 colours has, 16 to 255.
[[nodiscard]] int terminal_colour(Colour colour);

/// "#rrggbb".
[[nodiscard]] std::string hex(Colour colour);

}  // namespace attnctl
