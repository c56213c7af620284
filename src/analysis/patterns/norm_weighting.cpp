#include "analysis/patterns/norm_weighting.hpp"

#include <cmath>
#include <utility>

#include "analysis/head_index.hpp"
#include "analysis/mixing/layer_writes.hpp"
#include "base/error.hpp"

namespace attnctl {

NormWeighting::NormWeighting(const Selection& selection, Weighting weighting,
                             std::vector<Observer*> observers)
    : ids_(selection.heads), weighting_(weighting), observers_(std::move(observers)) {}

Needs NormWeighting::needs() const {
  Needs needs{.patterns = false, .values = true};
  for (const Observer* const observer : observers_) needs |= observer->needs();
  return needs;
}

std::uint64_t NormWeighting::memory(const Model& model, const Batch& batch) const {
  std::uint64_t keys = 0;
  for (const Sequence& sequence : batch.sequences) keys = std::max<std::uint64_t>(keys, sequence.keys());
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    const std::uint64_t width = model.config().layers[ids_[i].layer].attention.d_value;
    bytes += (keys + width * width) * sizeof(double);
    if (i == 0 || ids_[i].layer != ids_[i - 1].layer) bytes += model.attention_bytes(ids_[i].layer);
  }
  for (const Observer* const observer : observers_) bytes += observer->memory(model, batch);
  return bytes;
}

void NormWeighting::begin(const Model& model, const Batch& batch) {
  heads_.assign(ids_.size(), {});
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    const AttentionConfig& attention = model.config().layers[ids_[i].layer].attention;
    if (!attention.value.weight) {
      fail(Status::bad_input, "{}: layer {} has no values (W_v), so there are no norm-based weights",
           escaped(model.name()), ids_[i].layer);
    }
    heads_[i].lease = model.attention(ids_[i].layer);
    const Linear& output = heads_[i].lease->output;
    if (output.present())
      heads_[i].output = output.inputs(ids_[i].head * attention.d_value, attention.d_value);
  }
  for (Observer* const observer : observers_) observer->begin(model, batch);
}

void NormWeighting::measure(Head& head, MatrixView<const float> values) {
  const OwnedMatrix<double> wide = widened(values);
  if (!head.output.present()) {
    head.values.resize(wide.rows());
    for (std::size_t j = 0; j < wide.rows(); ++j) head.values[j] = norm(wide.view().row(j));
    return;
  }
  if (head.gram.rows() == 0) head.gram = gram(head.output.in_out_double().view());
  head.values = squared_norms(wide.view(), head.gram);
  for (double& value : head.values) value = std::sqrt(value);
}

void NormWeighting::panel(const AttentionPanel& panel) {
  const auto place = head_index(ids_, {panel.layer, panel.head});
  if (!place) return;
  Head& head = heads_[*place];
  if (panel.first_query == 0) measure(head, panel.v);
  OwnedMatrix<float> norms(panel.pattern.rows, panel.pattern.cols);
  std::vector<double> row(panel.pattern.cols);
  for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
    double total = 0;
    for (std::size_t j = 0; j < row.size(); ++j) {
      const double weight = panel.pattern(r, j);
      row[j] = weight == 0 ? 0 : weight * head.values[j];  // the value of a hidden key can be NaN
      total += row[j];
    }
    const double by = weighting_ == Weighting::norm_row && total != 0 ? total : 1;
    for (std::size_t j = 0; j < row.size(); ++j) norms(r, j) = static_cast<float>(row[j] / by);
  }
  AttentionPanel shown = panel;
  shown.pattern = std::as_const(norms).view();
  for (Observer* const observer : observers_) observer->panel(shown);
}

void NormWeighting::stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) {
  for (Observer* const observer : observers_) {
    if (observer->needs().stream) observer->stream(sequence, layer, values);
  }
}

void NormWeighting::output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) {
  for (Observer* const observer : observers_) {
    if (observer->needs().output) observer->output(sequence, layer, values);
  }
}

void NormWeighting::logits(std::size_t sequence, std::size_t first_query, MatrixView<const float> values) {
  for (Observer* const observer : observers_) {
    if (observer->needs().logits) observer->logits(sequence, first_query, values);
  }
}

}  // namespace attnctl
