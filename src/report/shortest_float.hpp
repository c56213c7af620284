#pragma once

namespace attnctl {

/// Characters from `to` on that write_shortest_float() may touch; its text has at most 16.
inline constexpr int shortest_float_room = 24;

/// Writes the shortest decimals that read back to the same float32, of several the nearest, in the form that
/// std::to_chars(float) chooses: fixed unless that is longer than the scientific one. The same bytes as
/// std::to_chars, several times as fast. The value is finite. Returns the end.
char* write_shortest_float(char* to, float value);

}  // namespace attnctl
