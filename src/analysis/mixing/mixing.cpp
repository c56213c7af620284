#include "analysis/mixing/mixing.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

#include "analysis/mixing/rollout.hpp"
#include "base/error.hpp"
#include "linalg/gemm.hpp"

namespace attnctl::analysis {

static double mean_of(std::span<const double> row) {
  return std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size());
}

/// Applies the linear part of a norm to a row, with the scale of `normed`, the row that the model normalises.
static void apply_linear_part(const model::NormConfig& config, const model::NormWeights& weights,
                              std::span<const double> normed, std::span<double> row) {
  const auto centre_of = [&](std::span<const double> of) {
    return config.kind == model::NormKind::layer ? mean_of(of) : 0;
  };
  const double normed_centre = centre_of(normed);
  double squares = 0;
  for (const double value : normed) squares += (value - normed_centre) * (value - normed_centre);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + double{config.eps});
  const double centre = centre_of(row);
  for (std::size_t c = 0; c < row.size(); ++c) {
    const double gain = weights.gain.empty() ? 1 : double{weights.gain[c]};
    row[c] = (row[c] - centre) * scale * gain;
  }
}

void Mixing::begin(const model::Model& model, const input::Batch& batch) {
  require_own_keys(batch, "mixing");
  const model::ModelConfig& config = model.config();
  if (config.d_output != 0 && config.d_output != config.d_model)
    fail(Status::bad_input,
         "{}: the attention output has width {} and the stream has width {}, so the mixing ratio is "
         "undefined; leave mixing out of --include",
         escaped(model.name()), config.d_output, config.d_model);
  for (const model::LayerConfig& layer : config.layers) {
    if (layer.place != model::NormPlace::output && layer.place != model::NormPlace::both &&
        layer.residual_multiplier == 1)
      continue;
    fail(Status::bad_input,
         "{}: mixing ratios are unsupported, because the model normalises or scales the attention output "
         "before it adds it to the stream; leave mixing out of --include",
         escaped(model.name()));
  }
  LayerWritesObserver::begin(model, batch);
  own_.assign(batch.sequences.size(), {});
  stream_.assign(batch.sequences.size(), {});
}

void Mixing::add_panel(const forward::AttentionPanel& panel) {
  const MatrixView<double> own = part_of(own_[panel.sequence], panel);
  for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
    const std::size_t i = panel.first_query + r;
    const double weight = panel.pattern(r, i);
    if (weight == 0) continue;  // the value of a hidden key can be NaN
    for (std::size_t c = 0; c < panel.z.cols; ++c) own(r, c) = weight * double{panel.v(i, c)};
  }
}

void Mixing::add_layer(std::size_t sequence, std::size_t layer, OwnedMatrix<double>& z,
                       MatrixView<const float> output) {
  const OwnedMatrix<double>& w_o = output_matrix(layer);
  const OwnedMatrix<double> stream = std::exchange(stream_[sequence], {});
  const OwnedMatrix<double> own = std::exchange(own_[sequence], {});
  OwnedMatrix<double>& others = z;
  std::ranges::transform(z.values(), own.values(), others.values().begin(), std::minus<>());
  OwnedMatrix<double> keep = stream;
  OwnedMatrix<double> mix(stream.rows(), stream.cols());
  linalg::gemm_nn(own.view(), w_o.view(), keep.view(), 1, 1);
  linalg::gemm_nn(others.view(), w_o.view(), mix.view());

  const model::LayerConfig& config = model_->config().layers[layer];
  const model::Lease<model::LayerWeights> weights = model_->layer(layer);
  LayerMixing& found = found_[{sequence, layer}];
  found = {sequence, layer, {}};
  std::vector<double> sum(stream.cols());
  for (std::size_t r = 0; r < stream.rows(); ++r) {
    if (config.place == model::NormPlace::post && config.norm.kind != model::NormKind::none) {
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] = stream(r, c) + double{output(r, c)};
      apply_linear_part(config.norm, weights->attention_norm, sum, keep.view().row(r));
      apply_linear_part(config.norm, weights->attention_norm, sum, mix.view().row(r));
    }
    found.positions.push_back({norm(mix.view().row(r)), norm(keep.view().row(r))});
  }
}

}  // namespace attnctl::analysis
