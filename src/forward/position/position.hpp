#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/block.hpp"
#include "model/config/config.hpp"

namespace attnctl::forward {

/// Adds PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos of the same angle, to row p of x [n, d].
void add_sinusoidal(MatrixView<float> x);

/// Adds sin(p / 10000^(2j/d)) to column j, j < d / 2 rounded up, and the cosines behind them, as float32
/// tables hold them.
void add_sinusoidal_halves(MatrixView<float> x);

/// Cosines and sines of rotary positions, [positions, r/2] each, made in float32 as the reference
/// implementation makes them: angle = float(position) * inverse_frequency, cosf and sinf of it, times the
/// attention factor.
struct RotaryTable {
  OwnedMatrix<float> cosine, sine;
};

/// The tables of a model, each made once for the longest sequence that was asked for.
class RotaryTables {
 public:
  /// The table for a sequence of `length` positions. Valid until the next call.
  [[nodiscard]] const RotaryTable& table(const RotaryConfig& config, std::size_t length);

 private:
  std::map<std::pair<const RotaryConfig*, bool>, RotaryTable> tables_;
};

/// Turns the first r of each head's columns of x [n, heads * d_head], row p by the angles of position p.
void rotate(Pool& pool, const RotaryConfig& config, const RotaryTable& table, std::size_t d_head,
            MatrixView<float> x);

}  // namespace attnctl::forward
