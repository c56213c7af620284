#include "causal/patching.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "forward/layers/layers.hpp"

namespace attnctl::causal {
namespace {

/// Records the patterns and values of all heads of one sequence.
class PartsRecorder final : public forward::Observer {
 public:
  [[nodiscard]] forward::Needs needs() const override { return {.values = true}; }
  void begin(const model::Model& model, const input::Batch& /*batch*/) override {
    for (const model::LayerConfig& layer : model.config().layers) parts_.emplace_back(layer.attention.heads);
  }
  void panel(const forward::AttentionPanel& panel) override {
    HeadParts& parts = parts_[panel.layer][panel.head];
    if (panel.first_query == 0) parts.values = copy_of(panel.v);
    // Panels arrive in the order of the rows, and the number of all rows is known only at the end.
    OwnedMatrix<float> grown(panel.first_query + panel.pattern.rows, panel.pattern.cols);
    for (std::size_t r = 0; r < grown.rows(); ++r) {
      const auto from = r < panel.first_query ? std::as_const(parts.pattern).view().row(r)
                                              : panel.pattern.row(r - panel.first_query);
      std::ranges::copy(from, grown.view().row(r).begin());
    }
    parts.pattern = std::move(grown);
  }

  [[nodiscard]] std::vector<std::vector<HeadParts>>& parts() { return parts_; }

 private:
  std::vector<std::vector<HeadParts>> parts_;  // [layers][heads]
};

/// Records the z of one head.
class ZRecorder final : public forward::Observer {
 public:
  explicit ZRecorder(OwnedMatrix<float>& z) : z_(z) {}
  [[nodiscard]] forward::Needs needs() const override { return {.patterns = false, .z = true}; }
  void panel(const forward::AttentionPanel& panel) override {
    for (std::size_t r = 0; r < panel.z.rows; ++r)
      std::ranges::copy(panel.z.row(r), z_.view().row(panel.first_query + r).begin());
  }

 private:
  OwnedMatrix<float>& z_;
};

}  // namespace

std::vector<std::vector<HeadParts>> record_parts(const model::Model& model, const input::Batch& batch,
                                                 forward::RunContext& context,
                                                 const std::optional<forward::Selection>& selection) {
  PartsRecorder recorder;
  forward::Observer* const observers[] = {&recorder};
  forward::run_forward(model, batch, selection ? *selection : forward::Selection::all(model.config()),
                       observers, context);
  return std::move(recorder.parts());
}

OwnedMatrix<float> weighted_values(MatrixView<const float> pattern, MatrixView<const float> values) {
  OwnedMatrix<float> z(pattern.rows, values.cols);
  std::vector<double> sums(values.cols);
  for (std::size_t i = 0; i < pattern.rows; ++i) {
    std::ranges::fill(sums, 0.0);
    for (std::size_t j = 0; j < pattern.cols; ++j) {
      const double weight = pattern(i, j);
      if (weight == 0) continue;  // a hidden key, whose values may be NaN
      for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += weight * double{values(j, c)};
    }
    for (std::size_t c = 0; c < sums.size(); ++c) z(i, c) = static_cast<float>(sums[c]);
  }
  return z;
}

bool has_additive_stream(const model::ModelConfig& config) {
  return !config.decoder && std::ranges::all_of(config.layers, [](const model::LayerConfig& layer) {
    return (layer.place == model::NormPlace::none || layer.place == model::NormPlace::pre) &&
           !layer.convolution;
  });
}

OwnedMatrix<float> z_after_path(const model::Model& model, const input::Batch& batch,
                                const RecordedSequence& recorded, model::HeadId from,
                                MatrixView<const float> z, model::HeadId to, HeadInput input,
                                forward::RunContext& context) {
  const model::ModelConfig& config = model.config();
  if (!has_additive_stream(config) || from.layer >= to.layer)
    throw std::logic_error("a path leads from a head to a head of a later layer, through a residual stream");
  const model::LayerConfig& writer = config.layers[from.layer];
  const std::size_t width = writer.attention.d_value;
  const MatrixView<const float> old = recorded.z[from.layer].view().col_range(from.head * width, width);
  OwnedMatrix<float> change(z.rows, width);  // of the z of `from`
  for (std::size_t r = 0; r < z.rows; ++r) {
    for (std::size_t c = 0; c < width; ++c) change(r, c) = z(r, c) - old(r, c);
  }
  OwnedMatrix<float> written(z.rows, config.d_model);
  const model::Lease<model::LayerWeights> from_weights = model.layer(from.layer, &context.pool);
  if (from_weights->output.present()) {
    model::Linear output = from_weights->output.inputs(from.head * width, width);
    const OwnedMatrix<double> weight = output.in_out_double();
    for (std::size_t r = 0; r < z.rows; ++r) {
      for (std::size_t d = 0; d < config.d_model; ++d) {
        double sum = 0;
        for (std::size_t c = 0; c < width; ++c) sum += double{change(r, c)} * weight(c, d);
        written(r, d) = static_cast<float>(sum);
      }
    }
  } else {
    for (std::size_t r = 0; r < z.rows; ++r)
      std::ranges::copy(std::as_const(change).view().row(r),
                        written.view().row(r).subspan(from.head * width).begin());
  }
  OwnedMatrix<float> stream = copy_of(recorded.streams[to.layer].view());
  forward::add_rows(context.pool, std::as_const(written).view(), stream.view(), writer.residual_multiplier);

  // Separate inputs of keys and values are read without the norm of the layer.
  const model::LayerConfig& reader = config.layers[to.layer];
  const model::Lease<model::LayerWeights> to_weights = model.layer(to.layer, &context.pool);
  const auto normed = [&](const OwnedMatrix<float>& x) {
    OwnedMatrix<float> out(x.rows(), x.cols());
    forward::apply_norm(context.pool,
                        reader.place == model::NormPlace::pre ? reader.attention_norm() : model::NormConfig{},
                        to_weights->attention_norm, x.view(), out.view());
    return out;
  };
  const OwnedMatrix<float>& plain = recorded.streams[to.layer];
  input::Batch part = batch;
  input::Sequence& sequence = part.sequences.front();
  sequence.key_embeddings = normed(input == HeadInput::key ? stream : plain);
  sequence.value_embeddings = normed(input == HeadInput::value ? stream : plain);
  const std::vector<forward::SequenceStart> start = {
      {(input == HeadInput::query ? std::as_const(stream) : plain).view(), {}, {}}};
  OwnedMatrix<float> result(z.rows, reader.attention.d_value);
  ZRecorder recorder(result);
  forward::Observer* const observers[] = {&recorder};
  forward::run_forward(model, part, {{to}}, observers, context, {.layer = to.layer, .start = start});
  return result;
}

}  // namespace attnctl::causal
