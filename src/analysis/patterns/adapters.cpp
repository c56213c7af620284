#include "analysis/patterns/adapters.hpp"

#include <algorithm>

#include "analysis/head_axes.hpp"
#include "base/error.hpp"
#include "base/numbers.hpp"

namespace attnctl::analysis {

std::uint64_t WordPooling::memory(const model::Model& model, const input::Batch& /*batch*/) const {
  std::uint64_t bytes = 0;
  for (const input::WordUnits& units : units_)
    bytes = std::max<std::uint64_t>(bytes, heads_.size() * units.count * sizeof(double));
  return bytes + ObserverGroup::memory(model, words_);
}

void WordPooling::panel(const forward::AttentionPanel& panel) {
  const auto head = head_index(heads_, {panel.layer, panel.head});
  if (!head) return;
  const input::WordUnits& units = units_[panel.sequence];
  const std::vector<std::size_t>& unit_of = units.unit_of_token;
  OpenWord& open = open_[*head];
  std::vector<float> rows;  // of the words that this panel completes
  std::vector<std::uint8_t> masked;
  for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
    const std::size_t query = panel.first_query + r;
    if (query == 0 || unit_of[query] != unit_of[query - 1]) {
      open.sum.assign(units.count, 0.0);
      open.rows = 0;
    }
    const bool hidden = !panel.fully_masked.empty() && panel.fully_masked[r] != 0;
    if (!hidden && (from_ == PoolFrom::mean || open.rows == 0)) {
      const auto row = panel.pattern.row(r);
      for (std::size_t key = panel.keys().first; key < panel.keys().last; ++key)
        open.sum[unit_of[key]] += double{row[key]};
      ++open.rows;
    }
    if (query + 1 != unit_of.size() && unit_of[query + 1] == unit_of[query]) continue;
    const double count = open.rows > 0 ? static_cast<double>(open.rows) : 1.0;
    for (const double sum : open.sum) rows.push_back(static_cast<float>(sum / count));
    masked.push_back(open.rows == 0 ? 1 : 0);
  }
  if (masked.empty()) return;
  forward::AttentionPanel pooled;
  pooled.sequence = panel.sequence;
  pooled.layer = panel.layer;
  pooled.head = panel.head;
  pooled.first_query = unit_of[panel.first_query];
  pooled.pattern = {rows.data(), masked.size(), units.count};
  if (std::ranges::find(masked, 1) != masked.end()) pooled.fully_masked = masked;
  ObserverGroup::panel(pooled);
}

OwnedMatrix<double> pool_matrix(MatrixView<const double> tokens, const input::WordUnits& units,
                                PoolFrom from) {
  OwnedMatrix<double> words(units.count, units.count);
  std::vector<double> rows(units.count, 0.0);
  for (std::size_t i = 0; i < tokens.rows; ++i) {
    const std::size_t unit = units.unit_of_token[i];
    if (from == PoolFrom::first && rows[unit] > 0) continue;
    for (std::size_t j = 0; j < tokens.cols; ++j) words(unit, units.unit_of_token[j]) += tokens(i, j);
    rows[unit] += 1;
  }
  for (std::size_t u = 0; u < units.count; ++u) {
    for (double& value : words.view().row(u)) value /= rows[u];
  }
  return words;
}

void NormWeighting::begin(const model::Model& model, const input::Batch& batch) {
  norms_.clear();
  for (const model::HeadId id : ids_) {
    if (!model.config().layers[id.layer].attention.value.weight)
      fail(Status::bad_input,
           "{}: layer {} has no values (W_v), so norm-based weights are undefined; use --weighting weights",
           escaped(model.name()), id.layer);
    norms_.emplace_back(model, id);
  }
  ObserverGroup::begin(model, batch);
}

void NormWeighting::panel(const forward::AttentionPanel& panel) {
  const auto place = head_index(ids_, {panel.layer, panel.head});
  if (!place) return;
  if (panel.first_query == 0) norms_[*place].compute(panel.v);
  const std::span<const double> norms_of_values = norms_[*place].norms();
  OwnedMatrix<float> norms(panel.pattern.rows, panel.pattern.cols);
  std::vector<double> row(panel.pattern.cols);
  for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
    double total = 0;
    for (std::size_t j = 0; j < row.size(); ++j) {
      const double weight = panel.pattern(r, j);
      row[j] = weight == 0 ? 0 : weight * norms_of_values[j];  // the value of a hidden key can be NaN
      total += row[j];
    }
    const double by = weighting_ == Weighting::norm_row && total != 0 ? total : 1;
    for (std::size_t j = 0; j < row.size(); ++j) norms(r, j) = static_cast<float>(row[j] / by);
  }
  forward::AttentionPanel shown = panel;
  shown.pattern = norms.view();
  ObserverGroup::panel(shown);
}

}  // namespace attnctl::analysis
