#include "attnctl/analysis/circuit.hpp"

#include "attnctl/linalg/gemm.hpp"

#include <stdexcept>
#include <utility>

namespace attnctl {

std::string_view name_of(Circuit circuit) {
  return circuit == Circuit::qk ? "qk" : "ov";
}

CircuitFactor CircuitFactor::of_outputs(const Linear& weight, std::size_t width,
                                        std::size_t heads_per_slice) {
  return {weight.stored, weight.orientation == Orientation::out_in, width, heads_per_slice};
}

CircuitFactor CircuitFactor::of_inputs(const Linear& weight, std::size_t width) {
  return {weight.stored, weight.orientation == Orientation::in_out, width, 1};
}

void CircuitFactor::fold(std::span<const float> gain, float offset) {
  if (gain.empty()) return;
  if (gain.size() != dimension()) throw std::logic_error("a norm's gain does not fit the weights it feeds");
  gain_.resize(gain.size());
  for (std::size_t r = 0; r < gain.size(); ++r) {
    gain_[r] = static_cast<double>(gain[r]) + static_cast<double>(offset);
  }
}

void CircuitFactor::read(std::size_t head, MatrixView<double> out) const {
  const std::size_t first = slice_of(head) * width_;
  if (by_rows_) {
    for (std::size_t c = 0; c < width_; ++c) {
      const auto from = stored_.row(first + c);
      for (std::size_t r = 0; r < from.size(); ++r) out(r, c) = static_cast<double>(from[r]);
    }
  } else {
    for (std::size_t r = 0; r < stored_.rows; ++r) {
      const auto from = stored_.row(r).subspan(first, width_);
      for (std::size_t c = 0; c < width_; ++c) out(r, c) = static_cast<double>(from[c]);
    }
  }
  for (std::size_t r = 0; r < gain_.size(); ++r) {
    for (double& value : out.row(r)) value *= gain_[r];
  }
}

OwnedMatrix<double> form_circuit(const CircuitFactors& factors, std::size_t head) {
  OwnedMatrix<double> left(factors.left.dimension(), factors.left.width());
  OwnedMatrix<double> right(factors.right.dimension(), factors.right.width());
  factors.left.read(head, left.view());
  factors.right.read(head, right.view());
  OwnedMatrix<double> circuit(left.rows(), right.rows());
  gemm_nt(std::as_const(left).view(), std::as_const(right).view(), circuit.view());
  return circuit;
}

}  // namespace attnctl
