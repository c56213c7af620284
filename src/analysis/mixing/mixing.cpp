#include "analysis/mixing/mixing.hpp"

#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "analysis/mixing/layer_writes.hpp"
#include "analysis/mixing/rollout.hpp"
#include "base/error.hpp"
#include "linalg/gemm.hpp"

namespace attnctl {
namespace {

double mean_of(std::span<const double> row) {
  return std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size());
}

/// The linear part of a norm. freeze() computes the scale from one row; apply() uses this scale for any row.
class FrozenNorm {
 public:
  FrozenNorm(const NormConfig& config, const NormWeights& weights) : config_(config), weights_(weights) {}

  void freeze(std::span<const double> row) {
    const double centre = config_.kind == NormKind::layer ? mean_of(row) : 0;
    double squares = 0;
    for (const double value : row) squares += (value - centre) * (value - centre);
    scale_ = 1 / std::sqrt(squares / static_cast<double>(row.size()) + double{config_.eps});
  }

  void apply(std::span<double> row) const {
    const double centre = config_.kind == NormKind::layer ? mean_of(row) : 0;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const double gain = weights_.gain.empty() ? 1 : double{weights_.gain[c]};
      row[c] = (row[c] - centre) * scale_ * gain;
    }
  }

 private:
  const NormConfig& config_;
  const NormWeights& weights_;
  double scale_ = 1;
};

}  // namespace

std::optional<double> PositionMixing::ratio() const {
  return mix + keep == 0 ? std::nullopt : std::optional(mix / (mix + keep));
}

std::uint64_t Mixing::memory(const Model& model, const Batch& batch) const {
  return writes_bytes(model, batch, layers_, {.of_heads = 2, .of_stream = 3, .of_output = 1});
}

void Mixing::begin(const Model& model, const Batch& batch) {
  require_own_keys(batch, "mixing");
  const ModelConfig& config = model.config();
  if (config.d_output != 0 && config.d_output != config.d_model) {
    fail(Status::bad_input,
         "{}: the attention output has width {} and the stream has width {}, so they have no mixing ratio; "
         "leave mixing out of --include",
         escaped(model.name()), config.d_output, config.d_model);
  }
  for (const LayerConfig& layer : config.layers) {
    if (layer.place != NormPlace::output && layer.place != NormPlace::both && layer.residual_multiplier == 1)
      continue;
    fail(
        Status::bad_input,
        "{}: mixing ratios are unsupported where the attention's output is normalised or scaled before it is "
        "added to the stream; leave mixing out of --include",
        escaped(model.name()));
  }
  model_ = &model;
  others_.begin(batch.sequences.size());
  own_.begin(batch.sequences.size());
  stream_.assign(batch.sequences.size(), {});
}

void Mixing::stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) {
  if (!is_one_of(layers_, layer)) return;
  const AttentionConfig& attention = model_->config().layers[layer].attention;
  const std::size_t width = attention.heads * attention.d_value;
  others_.open(sequence, values.rows, width);
  own_.open(sequence, values.rows, width);
  stream_[sequence] = widened(values);
}

void Mixing::panel(const AttentionPanel& panel) {
  if (!is_one_of(layers_, panel.layer) || panel.z.data == nullptr) return;
  const MatrixView<double> others = others_.part(panel, panel.z.cols);
  const MatrixView<double> own = own_.part(panel, panel.z.cols);
  for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
    const std::size_t i = panel.first_query + r;
    const double weight = panel.pattern(r, i);
    for (std::size_t c = 0; c < panel.z.cols; ++c) {
      own(r, c) = weight == 0 ? 0 : weight * double{panel.v(i, c)};  // the value of a hidden key can be NaN
      others(r, c) = double{panel.z(r, c)} - own(r, c);
    }
  }
}

void Mixing::output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) {
  if (!is_one_of(layers_, layer)) return;
  if (output_layer_ != layer) {
    output_ = output_matrix(*model_, layer);
    output_layer_ = layer;
  }
  const LayerConfig& config = model_->config().layers[layer];
  const OwnedMatrix<double> stream = std::exchange(stream_[sequence], {});
  OwnedMatrix<double> keep = stream;
  OwnedMatrix<double> mix(stream.rows(), stream.cols());
  const OwnedMatrix<double> own = own_.take(sequence);
  const OwnedMatrix<double> others = others_.take(sequence);
  gemm_nn(own.view(), output_.view(), keep.view(), 1, 1);
  gemm_nn(others.view(), output_.view(), mix.view());

  const Lease<LayerWeights> weights = model_->layer(layer);
  FrozenNorm after(config.norm, weights->attention_norm);
  LayerMixing& found = found_[{sequence, layer}];
  found = {sequence, layer, {}};
  std::vector<double> sum(stream.cols());
  for (std::size_t r = 0; r < stream.rows(); ++r) {
    if (config.place == NormPlace::post && config.norm.kind != NormKind::none) {
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] = stream(r, c) + double{values(r, c)};
      after.freeze(sum);
      after.apply(keep.view().row(r));
      after.apply(mix.view().row(r));
    }
    found.positions.push_back({norm(mix.view().row(r)), norm(keep.view().row(r))});
  }
}

}  // namespace attnctl
