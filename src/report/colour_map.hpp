#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace attnctl::report {

struct Colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
};

/// Returns the colours of a scale at evenly spaced points from the low end to the high end. The diverging
/// scale is RdBu of ColorBrewer (Brewer and Harrower), reversed, with a white middle. The sequential scale is
/// like Blues of ColorBrewer, with a white low end and a middle that is dark enough for white text.
[[nodiscard]] std::span<const Colour> colour_anchors(bool diverging);

/// Returns the colour at `place`, from 0 (low end) to 1 (high end). Interpolates linearly between the colours
/// of colour_anchors().
[[nodiscard]] Colour colour_at(bool diverging, double place);

/// Returns the most similar of the 216 colours and 24 greys of a 256-colour terminal, as a code from 16 to
/// 255.
[[nodiscard]] int terminal_colour(Colour colour);

/// Formats a colour as "#rrggbb".
[[nodiscard]] std::string hex(Colour colour);

}  // namespace attnctl::report
