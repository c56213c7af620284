#include <cmath>
#include <vector>

#include "textbook/positions.hpp"

namespace attnctl {
namespace {

/// Returns 10000^(2i/d) of each pair i.
std::vector<double> wavelengths(std::size_t d) {
  std::vector<double> lengths(d / 2);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    lengths[i] = std::pow(10000.0, 2 * static_cast<double>(i) / static_cast<double>(d));
  return lengths;
}

}  // namespace

OwnedMatrix<double> sinusoidal_positions(std::size_t first, std::size_t count, std::size_t d) {
  const std::vector<double> lengths = wavelengths(d);
  OwnedMatrix<double> rows(count, d);
  for (std::size_t p = 0; p < count; ++p) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const double turn = static_cast<double>(first + p) / lengths[i];
      rows(p, 2 * i) = std::sin(turn);
      rows(p, 2 * i + 1) = std::cos(turn);
    }
  }
  return rows;
}

void turn_positions(MatrixView<double> rows, std::size_t offset) {
  const std::vector<double> lengths = wavelengths(rows.cols);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const double sine = std::sin(static_cast<double>(offset) / lengths[i]);
    const double cosine = std::cos(static_cast<double>(offset) / lengths[i]);
    for (std::size_t p = 0; p < rows.rows; ++p) {
      const double x = rows(p, 2 * i);
      const double y = rows(p, 2 * i + 1);
      rows(p, 2 * i) = x * cosine + y * sine;
      rows(p, 2 * i + 1) = y * cosine - x * sine;
    }
  }
}

}  // namespace attnctl
