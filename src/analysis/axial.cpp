#include "analysis/axial.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.hpp"

namespace attnctl::analysis {
namespace {

void check_model(const model::Model& model) {
  const model::ModelConfig& config = model.config();
  const model::LayerConfig& layer = config.layers.front();
  const auto refuse = [&](const char* why) {
    fail(Status::bad_input,
         "{}: axial attention is unsupported by this model, because {}; use a model with one layer that "
         "contains only attention",
         escaped(model.name()), why);
  };
  // Only the family `attention` has NormPlace::none. It has no positions in scores, final norm or output
  // head.
  if (config.layers.size() > 1) refuse("it has several layers");
  if (layer.place != model::NormPlace::none || layer.mlp.width > 0) refuse("its layer has a norm or an MLP");
  if (config.embedding.position != model::PositionKind::none) refuse("it adds positions to its input (/position of its configuration is not none)");
  if (config.embedding.projection.weight) refuse("it projects its input");
  if (!layer.attention.value.weight) refuse("it has no values (W_v), so the columns have no output");
  if (config.d_output != config.d_model) refuse("its output and its input have different widths");
}

void check_row(const input::Sequence& row, std::size_t length) {
  const auto refuse = [&](const char* why) {
    fail(Status::bad_input,
         "input {} {}; axial attention needs a grid of embeddings [N, L, d] without separate keys or a mask",
         escaped(row.id), why);
  };
  if (row.embeddings.rows() == 0) refuse("has no embeddings");
  if (row.embeddings.rows() != length) refuse("does not have the length of the first input");
  if (row.key_embeddings.rows() > 0) refuse("has separate keys");
  if (row.mask || !row.key_visible.empty()) refuse("has a mask");
}

/// Passes the panels, streams and outputs of some sequences of a batch to observers of the whole batch. Adds
/// `first`, the index of the first of these sequences in the batch, to the sequence index.
class PartObserver final : public forward::ObserverGroup {
 public:
  PartObserver(std::span<forward::Observer* const> observers, std::size_t first)
      : ObserverGroup({observers.begin(), observers.end()}), first_(first) {}

  /// Does nothing, because run_axial has called begin() of the observers with the whole batch.
  void begin(const model::Model& /*model*/, const input::Batch& /*batch*/) override {}
  void panel(const forward::AttentionPanel& panel) override {
    forward::AttentionPanel moved = panel;
    moved.sequence += first_;
    ObserverGroup::panel(moved);
  }
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override {
    ObserverGroup::stream(first_ + sequence, layer, values);
  }
  void output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override {
    ObserverGroup::output(first_ + sequence, layer, values);
  }

 private:
  std::size_t first_;
};

/// Adds the attention output of each column to the embeddings of the rows.
class AddToRows final : public forward::Observer {
 public:
  explicit AddToRows(std::span<input::Sequence> rows) : rows_(rows) {}

  [[nodiscard]] forward::Needs needs() const override { return {.patterns = false, .output = true}; }
  void panel(const forward::AttentionPanel& /*panel*/) override {}
  void output(std::size_t sequence, std::size_t /*layer*/, MatrixView<const float> values) override {
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const auto to = rows_[r].embeddings.view().row(sequence);
      for (std::size_t c = 0; c < to.size(); ++c) to[c] += values(r, c);
    }
  }

 private:
  std::span<input::Sequence> rows_;
};

void run_part(const model::Model& model, input::Batch& batch, std::size_t first, std::size_t count,
              const forward::Selection& selection, const std::vector<forward::Observer*>& observers,
              forward::RunContext& context) {
  const auto begin = batch.sequences.begin() + static_cast<std::ptrdiff_t>(first);
  input::Batch part{
      {std::make_move_iterator(begin), std::make_move_iterator(begin + static_cast<std::ptrdiff_t>(count))}};
  forward::run_forward(model, part, selection, observers, context);
  std::ranges::move(part.sequences, begin);
}

}  // namespace

AxialGrid make_axial(const model::Model& model, input::Batch& batch) {
  check_model(model);
  std::vector<input::Sequence> rows = std::move(batch.sequences);
  const AxialGrid grid{rows.size(), rows.empty() ? 0 : rows.front().queries()};
  for (const input::Sequence& row : rows) check_row(row, grid.columns);
  batch.sequences.clear();
  for (std::size_t c = 0; c < grid.columns; ++c) {
    input::Sequence& column = batch.sequences.emplace_back();
    column.id = fmt::format("column {}", c);
    column.causal = rows.front().causal;
    column.embeddings = OwnedMatrix<float>(grid.rows, rows.front().embeddings.cols());
    for (std::size_t r = 0; r < grid.rows; ++r) {
      const auto from = std::as_const(rows[r].embeddings).view().row(c);
      std::ranges::copy(from, column.embeddings.view().row(r).begin());
    }
  }
  for (std::size_t r = 0; r < grid.rows; ++r) {
    rows[r].id = fmt::format("row {}", r);
    batch.sequences.push_back(std::move(rows[r]));
  }
  return grid;
}

void run_axial(const model::Model& model, input::Batch& batch, const std::optional<AxialGrid>& grid,
               const forward::Selection& selection, std::span<forward::Observer* const> observers,
               forward::RunContext& context) {
  if (!grid) return forward::run_forward(model, batch, selection, observers, context);
  for (forward::Observer* const observer : observers) observer->begin(model, batch);
  PartObserver of_columns(observers, 0);
  PartObserver of_rows(observers, grid->columns);
  AddToRows add(std::span(batch.sequences).subspan(grid->columns));
  run_part(model, batch, 0, grid->columns, selection, {&of_columns, &add}, context);
  run_part(model, batch, grid->columns, grid->rows, selection, {&of_rows}, context);
}

std::vector<reference::ReferencePass> run_axial_reference(const model::Model& model, input::Batch batch,
                                                          const AxialGrid& grid, Pool& pool) {
  std::vector<reference::ReferencePass> passes;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    passes.push_back(reference::run_reference(model, batch.sequences[s], 0, false, pool));
    if (s >= grid.columns) continue;
    const OwnedMatrix<double>& output = passes.back().layers.front().output;
    for (std::size_t r = 0; r < grid.rows; ++r) {
      const auto to = batch.sequences[grid.columns + r].embeddings.view().row(s);
      for (std::size_t c = 0; c < to.size(); ++c) to[c] = static_cast<float>(double{to[c]} + output(r, c));
    }
  }
  return passes;
}

}  // namespace attnctl::analysis
