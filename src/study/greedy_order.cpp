#include "study/greedy_order.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "results/results.hpp"
#include "study/state/study_state.hpp"

namespace attnctl::study {
namespace {

/// Returns the change of the loss for each removed set; infinity if it is undefined.
std::vector<double> loss_changes(const StudyRun& run, Pool& pool) {
  StudyState state(plain_header(run.input.settings, run.input.model));
  run_study(run, state);
  const StudyResults results = state.finish(pool, {});
  const Table& table = *std::ranges::find(results.tables, "ablation", &Table::name);
  const std::size_t column = *table.find("loss_change");
  std::vector<double> changes;
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t row = 0; row < table.rows; ++row) {
    table.row(row, cells);
    const double change = number_of(cells[column]);
    changes.push_back(std::isfinite(change) ? change : std::numeric_limits<double>::infinity());
  }
  return changes;
}

}  // namespace

std::vector<model::HeadId> greedy_order(const StudyInput& input, Pool& pool, Progress& progress) {
  StudySettings settings = input.settings;
  std::erase_if(settings.measures, [](const MeasureRow* row) { return row->name != "ablation"; });
  settings.corpus.probe = {};
  settings.ablation.sets.clear();
  const StudyInput with_sets{settings,      input.model,  input.vocabulary,
                             input.encoder, input.memory, input.used};
  const AblationData data = prepare_ablation(with_sets, pool, progress);
  std::vector<model::HeadId> left = settings.selection.heads, removed;
  Progress silent(ProgressMode::never, true);
  progress.begin("greedy order", left.size() - 1, "head");
  while (left.size() > 1) {
    settings.ablation.sets.clear();
    for (const model::HeadId head : left) {
      RemovedSet& set = settings.ablation.sets.emplace_back();
      set.name = model::head_name(input.model.config(), head);
      set.kind = "group";
      set.heads = removed;
      set.heads.push_back(head);
    }
    const std::vector<double> changes =
        loss_changes({.input = with_sets, .pool = pool, .progress = silent, .ablation = &data}, pool);
    const auto best = left.begin() + (std::ranges::min_element(changes) - changes.begin());
    removed.push_back(*best);
    left.erase(best);
    progress.advance();
  }
  progress.end();
  left.insert(left.end(), removed.rbegin(), removed.rend());
  return left;
}

}  // namespace attnctl::study
