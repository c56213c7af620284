#include "forward/position/position.hpp"

#include <cmath>
#include <span>
#include <vector>

#include "forward/attention/rows.hpp"

namespace attnctl::forward {
namespace {

RotaryTable make_table(const std::vector<float>& inverse_frequency, float factor, std::size_t length) {
  const std::size_t pairs = inverse_frequency.size();
  RotaryTable table{{length, pairs}, {length, pairs}};
  for (std::size_t p = 0; p < length; ++p) {
    for (std::size_t j = 0; j < pairs; ++j) {
      const float angle = static_cast<float>(p) * inverse_frequency[j];
      table.cosine(p, j) = std::cos(angle) * factor;
      table.sine(p, j) = std::sin(angle) * factor;
    }
  }
  return table;
}

/// Pairs (j, j + r/2).
void rotate_half(std::span<const float> cosine, std::span<const float> sine, float* x) {
  const std::size_t pairs = cosine.size();
  float* const y = x + pairs;
  for (std::size_t j = 0; j < pairs; ++j) {
    const float first = x[j];
    const float second = y[j];
    x[j] = first * cosine[j] - second * sine[j];
    y[j] = second * cosine[j] + first * sine[j];
  }
}

/// Pairs (2j, 2j + 1).
void rotate_interleaved(std::span<const float> cosine, std::span<const float> sine, float* x) {
  for (std::size_t j = 0; j < cosine.size(); ++j) {
    const float first = x[2 * j];
    const float second = x[2 * j + 1];
    x[2 * j] = first * cosine[j] - second * sine[j];
    x[2 * j + 1] = second * cosine[j] + first * sine[j];
  }
}

}  // namespace

void add_sinusoidal(MatrixView<float> x) {
  for (std::size_t column = 0; column < x.cols; ++column) {
    const bool even = column % 2 == 0;
    const auto exponent = static_cast<double>(column - (even ? 0 : 1)) / static_cast<double>(x.cols);
    const double wavelength = std::pow(10000.0, exponent);  // over 2 pi
    for (std::size_t p = 0; p < x.rows; ++p) {
      const double angle = static_cast<double>(p) / wavelength;
      x(p, column) += static_cast<float>(even ? std::sin(angle) : std::cos(angle));
    }
  }
}

void add_sinusoidal_halves(MatrixView<float> x) {
  const std::size_t sines = (x.cols + 1) / 2;
  for (std::size_t column = 0; column < x.cols; ++column) {
    const bool sine = column < sines;
    const std::size_t pair = sine ? column : column - sines;
    const double wavelength =
        std::pow(10000.0, 2 * static_cast<double>(pair) / static_cast<double>(x.cols));  // over 2 pi
    for (std::size_t p = 0; p < x.rows; ++p) {
      const double angle = static_cast<double>(p) / wavelength;
      x(p, column) += static_cast<float>(sine ? std::sin(angle) : std::cos(angle));
    }
  }
}

const RotaryTable& RotaryTables::table(const RotaryConfig& config, std::size_t length) {
  const bool is_long = !config.long_inverse_frequency.empty() && length > config.long_from;
  RotaryTable& table = tables_[{&config, is_long}];
  if (table.cosine.rows() < length) {
    table = make_table(is_long ? config.long_inverse_frequency : config.inverse_frequency,
                       config.attention_factor, length);
  }
  return table;
}

void rotate(Pool& pool, const RotaryConfig& config, const RotaryTable& table, std::size_t d_head,
            MatrixView<float> x) {
  for_row_ranges(pool, x.rows, x.cols, [&](std::size_t first, std::size_t count) {
    for (std::size_t p = first; p < first + count; ++p) {
      const auto cosine = table.cosine.view().row(p);
      const auto sine = table.sine.view().row(p);
      for (std::size_t column = 0; column + d_head <= x.cols; column += d_head) {
        float* const head = x.row(p).data() + column;
        if (config.pairing == RotaryPairing::half) {
          rotate_half(cosine, sine, head);
        } else {
          rotate_interleaved(cosine, sine, head);
        }
      }
    }
  });
}

}  // namespace attnctl::forward
