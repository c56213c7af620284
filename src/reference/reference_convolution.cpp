#include "reference/reference_math.hpp"

namespace attnctl::reference {

void add_convolution(const LayerConfig& config, const LayerWeights& weights,
                     const OwnedMatrix<double>& embeddings, OwnedMatrix<double>& x) {
  if (!config.convolution) return;
  const auto& [kernel, groups, activation] = *config.convolution;
  const OwnedMatrix<double> filter =
      weights.convolution.in_out_double();  // [channels of a group x kernel, d]
  const std::size_t channels = x.cols() / groups;
  const std::size_t side = (kernel - 1) / 2;
  for (std::size_t p = 0; p < x.rows(); ++p) {
    for (std::size_t out = 0; out < x.cols(); ++out) {
      double sum = weights.convolution.bias[out];
      for (std::size_t t = 0; t < kernel; ++t) {
        if (p + t < side || p + t - side >= x.rows()) continue;
        for (std::size_t c = 0; c < channels; ++c) {
          sum += filter(c * kernel + t, out) * embeddings(p + t - side, out / channels * channels + c);
        }
      }
      x(p, out) += activate(activation, sum);
    }
  }
  x = apply(config.norm, weights.convolution_norm, x.view());
}

}  // namespace attnctl::reference
