#include "causal/patching.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "forward/block.hpp"
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

/// Returns what the difference between `z` and the recorded z of a head adds to its residual stream [n,
/// d_model], before the residual multiplier.
OwnedMatrix<float> written_by(const model::Model& model, const RecordedSequence& recorded, model::HeadId head,
                              MatrixView<const float> z, const forward::RunContext& context) {
  const std::size_t width = model.config().layers[head.layer].attention.d_value;
  const MatrixView<const float> old = recorded.z[head.layer].view().col_range(head.head * width, width);
  OwnedMatrix<float> written(z.rows, model.config().d_model);
  const model::Lease<model::AttentionWeights> weights =
      model.attention(head.layer, &context.pool, model::WeightForm::stored);
  const bool projects = weights->output.present();
  const OwnedMatrix<double> weight =
      projects ? weights->output.inputs_double(head.head * width, width) : OwnedMatrix<double>();
  if (context.streamed_rows > 0) model.evict_layer(head.layer);
  for (std::size_t r = 0; r < z.rows; ++r) {
    std::vector<double> row(written.cols(), 0.0);
    for (std::size_t c = 0; c < width; ++c) {
      const double change = double{z(r, c)} - double{old(r, c)};
      if (!projects) row[head.head * width + c] = change;
      for (std::size_t d = 0; projects && d < row.size(); ++d) row[d] += change * weight(c, d);
    }
    std::ranges::transform(row, written.view().row(r).begin(),
                           [](double value) { return static_cast<float>(value); });
  }
  return written;
}

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
  return std::ranges::all_of(config.layers, [](const model::LayerConfig& layer) {
    return (layer.place == model::NormPlace::none || layer.place == model::NormPlace::pre) &&
           !layer.convolution;
  });
}

std::vector<HeadInput> path_inputs(const model::ModelConfig& config, model::HeadId from, model::HeadId to) {
  if (from.layer >= to.layer) return {};
  const bool from_decoder = forward::needs_target(config.layers[from.layer].component);
  const model::Component reader = config.layers[to.layer].component;
  if (reader == model::Component::cross)
    return from_decoder ? std::vector{HeadInput::query} : std::vector{HeadInput::key, HeadInput::value};
  if (from_decoder != forward::needs_target(reader)) return {};
  return {HeadInput::query, HeadInput::key, HeadInput::value};
}

OwnedMatrix<float> z_after_path(const model::Model& model, const input::Batch& batch,
                                const RecordedSequence& recorded, model::HeadId from,
                                MatrixView<const float> z, model::HeadId to, HeadInput input,
                                forward::RunContext& context) {
  const model::ModelConfig& config = model.config();
  const std::vector<HeadInput> inputs = path_inputs(config, from, to);
  if (!has_additive_stream(config) || std::ranges::find(inputs, input) == inputs.end())
    throw std::logic_error("a path leads from a head to an input of a later head, through a residual stream");
  const OwnedMatrix<float> written = written_by(model, recorded, from, z, context);
  const bool cross = config.layers[to.layer].component == model::Component::cross;
  const bool through_encoder = cross && input != HeadInput::query;
  OwnedMatrix<float> changed =
      copy_of((through_encoder ? recorded.encoder_stream : recorded.streams[to.layer]).view());
  forward::add_rows(context.pool, written.view(), changed.view(),
                    config.layers[from.layer].residual_multiplier);
  if (through_encoder)
    forward::apply_norm(context.pool, config.decoder->encoder_norm, model.encoder_norm(),
                        std::as_const(changed).view(), changed.view());

  const MatrixView<const float> stream = recorded.streams[to.layer].view(), memory = recorded.memory.view();
  const auto read_by = [&](HeadInput one, MatrixView<const float> plain) {
    return one == input ? std::as_const(changed).view() : plain;
  };
  const std::vector<forward::SequenceStart> start = {
      {.stream = read_by(HeadInput::query, stream),
       .z = {},
       .memory = memory,
       .keys = read_by(HeadInput::key, cross ? memory : stream),
       .values = read_by(HeadInput::value, cross ? memory : stream)}};
  OwnedMatrix<float> result(stream.rows, config.layers[to.layer].attention.d_value);
  ZRecorder recorder(result);
  forward::Observer* const observers[] = {&recorder};
  forward::run_forward(model, batch, {{to}}, observers, context, {.layer = to.layer, .start = start});
  return result;
}

}  // namespace attnctl::causal
