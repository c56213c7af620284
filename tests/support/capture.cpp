#include "support/capture.hpp"

#include <algorithm>
#include <stdexcept>

#include "forward/block.hpp"

namespace attnctl::test {
namespace {

OwnedMatrix<float> copy_of(MatrixView<const float> view) {
  OwnedMatrix<float> copy(view.rows, view.cols);
  for (std::size_t r = 0; r < view.rows; ++r)
    std::copy_n(view.row(r).begin(), view.cols, copy.view().row(r).begin());
  return copy;
}

/// Copies rows into a matrix [all_rows, cols], which the first call allocates.
void put_rows(MatrixView<const float> rows, std::size_t first, std::size_t all_rows,
              OwnedMatrix<float>& into) {
  if (rows.empty()) return;
  if (into.rows() == 0) into = OwnedMatrix<float>(all_rows, rows.cols);
  for (std::size_t r = 0; r < rows.rows; ++r) {
    std::copy_n(rows.row(r).begin(), rows.cols, into.view().row(first + r).begin());
  }
}

}  // namespace

void Capture::begin(const model::Model& model, const input::Batch& batch) {
  sequences.resize(batch.sequences.size());
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const input::Sequence& sequence = batch.sequences[i];
    for (const model::HeadId& id : selection_.heads) {
      const forward::Sides sides = forward::sides_of(model.config().layers[id.layer].component, sequence);
      sequences[i].heads[id].fully_masked.assign(sides.queries(), 2);
    }
    lengths_.push_back(sequence.target ? sequence.target->queries() : sequence.queries());
  }
}

void Capture::panel(const forward::AttentionPanel& panel) {
  CapturedHead& head = sequences.at(panel.sequence).heads.at({panel.layer, panel.head});
  const std::size_t n = head.fully_masked.size();
  put_rows(panel.pattern, panel.first_query, n, head.pattern);
  put_rows(panel.scores, panel.first_query, n, head.scores);
  put_rows(panel.z, panel.first_query, n, head.z);
  put_rows(panel.q, panel.first_query, n, head.q);
  head.k = copy_of(panel.k);
  head.v = copy_of(panel.v);
  for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
    head.fully_masked.at(panel.first_query + r) = panel.fully_masked[r];
  }
  ++head.panels;
}

void Capture::output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) {
  if (!sequences.at(sequence).output.emplace(layer, copy_of(values)).second) {
    throw std::logic_error("the output of a layer came twice");
  }
}

void Capture::logits(std::size_t sequence, std::size_t first_query, MatrixView<const float> values) {
  put_rows(values, first_query, lengths_.at(sequence), sequences.at(sequence).logits);
}

std::vector<CapturedSequence> capture_all(const model::Model& model, const input::Batch& batch,
                                          const PassOptions& options) {
  Pool pool(options.threads);
  Warnings warnings;
  forward::RunContext context{
      pool, warnings, nullptr, options.panel_rows, options.packed_rows, options.streamed_rows};
  const forward::Selection all = forward::Selection::all(model.config());
  Capture capture(all);
  forward::Observer* const observers[] = {&capture};
  forward::run_forward(model, batch, all, observers, context);
  return std::move(capture.sequences);
}

}  // namespace attnctl::test
