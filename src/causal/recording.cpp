#include "causal/recording.hpp"

#include <algorithm>
#include <utility>

namespace attnctl::causal {

OwnedMatrix<float> copy_of(MatrixView<const float> values) {
  OwnedMatrix<float> copy(values.rows, values.cols);
  for (std::size_t r = 0; r < values.rows; ++r) std::ranges::copy(values.row(r), copy.view().row(r).begin());
  return copy;
}

void Recorder::begin(const model::Model& model, const input::Batch& batch) {
  const std::size_t layers = model.config().layers.size();
  sequences_.resize(batch.sequences.size());
  for (RecordedSequence& sequence : sequences_) {
    sequence.streams.resize(layers);
    sequence.z.resize(layers);
    if (mlps_) sequence.mlp.resize(layers);
  }
}

void Recorder::stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) {
  sequences_[sequence].streams[layer] = copy_of(values);
}

void Recorder::encoder_stream(std::size_t sequence, MatrixView<const float> values) {
  sequences_[sequence].encoder_stream = copy_of(values);
}

void Recorder::encoded(std::size_t sequence, MatrixView<const float> values) {
  sequences_[sequence].memory = copy_of(values);
}

void Recorder::final_stream(std::size_t sequence, MatrixView<const float> values) {
  sequences_[sequence].final_stream = copy_of(values);
}

void Recorder::heads(std::size_t sequence, std::size_t layer, MatrixView<float> z) {
  sequences_[sequence].z[layer] = copy_of(z);
}

void Recorder::mlp(std::size_t sequence, std::size_t layer, std::size_t first_query, MatrixView<float> term) {
  if (!mlps_) return;
  RecordedSequence& to = sequences_[sequence];
  if (to.mlp[layer].rows() == 0) to.mlp[layer] = OwnedMatrix<float>(to.streams[layer].rows(), term.cols);
  for (std::size_t r = 0; r < term.rows; ++r)
    std::ranges::copy(term.row(r), to.mlp[layer].view().row(first_query + r).begin());
}

std::vector<RecordedSequence> record(const model::Model& model, const input::Batch& batch, bool mlps,
                                     forward::RunContext& context) {
  Recorder recorder(mlps);
  forward::Observer* const observers[] = {&recorder};
  const std::vector<std::vector<std::size_t>> no_logits(batch.sequences.size());
  forward::run_forward(model, batch, forward::Selection::all(model.config()), observers, context,
                       {.editor = &recorder, .logit_queries = no_logits});
  return std::move(recorder.sequences());
}

}  // namespace attnctl::causal
