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

/// Returns the anchor colours of a scale, evenly spaced from its low end to its high end. Source: ColorBrewer
/// (Brewer and Harrower). Diverging: RdBu, reversed, with a white middle. Sequential: Blues with a white low
/// end; its middle is dark enough for white text.
[[nodiscard]] std::span<const Colour> colour_anchors(bool diverging);

/// Returns the colour at `place`, from 0 (low end) to 1 (high end), by linear interpolation between anchors.
[[nodiscard]] Colour colour_at(bool diverging, double place);

/// Returns the nearest of the 216 colours and 24 greys of a 256-colour terminal, as a code from 16 to 255.
[[nodiscard]] int terminal_colour(Colour colour);

/// Formats a colour as "#rrggbb".
[[nodiscard]] std::string hex(Colour colour);

}  // namespace attnctl
