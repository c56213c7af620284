#include "causal/integrated.hpp"

#include <algorithm>
#include <utility>

#include "causal/gradient.hpp"
#include "causal/patching.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::causal {
namespace {

/// Multiplies the z of all heads of a layer, that of each sequence by another factor, and records the passes.
class ScaledRecorder final : public forward::Editor {
 public:
  ScaledRecorder(Recorder& recorder, std::size_t layer, std::vector<double> factors)
      : recorder_(recorder), layer_(layer), factors_(std::move(factors)) {}

  void heads(std::size_t sequence, std::size_t layer, MatrixView<float> z) override {
    for (std::size_t r = 0; layer == layer_ && r < z.rows; ++r)
      linalg::kernels().scale(factors_[sequence], z.row(r));
    recorder_.heads(sequence, layer, z);
  }

 private:
  Recorder& recorder_;
  std::size_t layer_;
  std::vector<double> factors_;  // [sequences]
};

/// Returns the mean over steps of d ln p / d z [n, heads * v] of a layer.
OwnedMatrix<float> mean_gradient(const model::Model& model, const input::Batch& batch,
                                 const RecordedSequence& recorded, const ScoredQueries& scored,
                                 std::size_t layer, std::size_t steps, forward::RunContext& context) {
  const OwnedMatrix<float>& z = recorded.z[layer];
  OwnedMatrix<float> mean(z.rows(), z.cols());
  const std::size_t together =
      std::max<std::size_t>(1, context.packed_rows / std::max<std::size_t>(1, z.rows()));
  for (std::size_t first = 0; first < steps; first += together) {
    const std::size_t count = std::min(together, steps - first);
    input::Batch copies;
    copies.sequences.assign(count, batch.sequences.front());
    const std::vector<forward::SequenceStart> start(
        count, {recorded.streams[layer].view(), z.view(), recorded.memory.view()});
    std::vector<double> factors;
    for (std::size_t k = first; k < first + count; ++k)
      factors.push_back((static_cast<double>(k) + 0.5) / static_cast<double>(steps));
    Recorder recorder(false);
    ScaledRecorder scaled(recorder, layer, std::move(factors));
    forward::Observer* const observers[] = {&recorder};
    const std::vector<std::vector<std::size_t>> no_logits(count);
    forward::run_forward(model, copies, forward::Selection::all(model.config()), observers, context,
                         {.editor = &scaled, .layer = layer, .start = start, .logit_queries = no_logits});
    for (RecordedSequence& each : recorder.sequences())
      if (each.memory.rows() == 0) each.memory = recorded.memory;  // the pass began in the decoder
    const std::vector<ScoredQueries> of_copies(count, scored);
    for (const HeadGradients& gradients :
         loss_gradients(model, copies, of_copies, recorder.sequences(), context, {.first_layer = layer})) {
      const OwnedMatrix<float>& d_loss = gradients.d_z[layer];
      for (std::size_t i = 0; i < mean.values().size(); ++i)
        mean.values()[i] -= d_loss.values()[i] / static_cast<float>(steps);
    }
  }
  return mean;
}

}  // namespace

std::vector<PatternParts> integrate_patterns(const model::Model& model, const input::Batch& batch,
                                             const CausalPass& pass, const ScoredQueries& scored,
                                             const forward::Selection& selection, std::size_t steps,
                                             forward::RunContext& context) {
  std::vector<std::vector<HeadParts>> recorded = record_parts(model, batch, context, selection);
  std::vector<PatternParts> all;
  for (const std::size_t layer : selection.layers()) {
    const OwnedMatrix<float> gradient =
        mean_gradient(model, batch, pass.recorded().front(), scored, layer, steps, context);
    for (const model::HeadId id : selection.heads) {
      if (id.layer != layer) continue;
      HeadParts& head = recorded[layer][id.head];
      PatternParts& found = all.emplace_back();
      found.head = id;
      found.parts = OwnedMatrix<float>(head.pattern.rows(), head.pattern.cols());
      const std::size_t width = head.values.cols();
      context.pool.run(found.parts.rows(), [&](std::size_t i, std::size_t /*worker*/) {
        const auto slope = gradient.view().row(i).subspan(id.head * width, width);
        for (std::size_t j = 0; j < found.parts.cols(); ++j) {
          const double weight = head.pattern(i, j);
          if (weight == 0) continue;  // a hidden key, whose values may be NaN
          double sum = 0;
          for (std::size_t c = 0; c < width; ++c) sum += double{slope[c]} * double{head.values(j, c)};
          found.parts(i, j) = static_cast<float>(weight * sum);
        }
      });
      found.pattern = std::move(head.pattern);
    }
  }
  return all;
}

}  // namespace attnctl::causal
