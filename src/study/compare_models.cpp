#include "study/compare_models.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "analysis/similarity/head_match.hpp"
#include "analysis/weights/weight_changes.hpp"
#include "base/text.hpp"
#include "inspect/model_changes.hpp"
#include "study/behaviour.hpp"

namespace attnctl::study {
namespace {

/// Returns the selected heads of a that b also has.
forward::Selection common_heads(const forward::Selection& selection, const model::ModelConfig& a,
                                const model::ModelConfig& b) {
  forward::Selection common;
  for (const model::HeadId head : selection.heads)
    if (head.layer < b.layers.size() && head.head < b.layers[head.layer].attention.heads &&
        b.layers[head.layer].component == a.layers[head.layer].component)
      common.heads.push_back(head);
  return common;
}

/// Returns the changes of the weights, if both models have the same shape, and of what their heads do on the
/// corpus, if both read the same tokens.
Results compare_on_corpus(OpenStudy& a, const OpenStudy& b, const ModelComparison& comparison,
                          const std::set<std::string>& changed_roles, const ComparisonContext& context) {
  Warnings repeated;  // the studies had the same warnings
  const model::ModelConfig &config_a = a.open.model.config(), &config_b = b.open.model.config();
  forward::Selection heads = a.settings.selection;
  if (!comparison.match) heads = common_heads(heads, config_a, config_b);
  std::vector<model::HeadId> partners;
  BehaviourInput input{a.settings.corpus, heads,         a.open.model, b.open.model, a.open.vocabulary,
                       b.open.vocabulary, a.open.encoder};
  const auto difference = behaviour_difference(input);
  Results changes;
  if (comparison.match) {
    const std::vector<model::HeadId>& others = b.settings.selection.heads;
    if (difference) fail(Status::bad_input, "--match: {}", *difference);
    if (others.size() < heads.heads.size())
      fail(Status::usage, "--match: A has {} and B only {}; give the model with fewer heads first",
           counted(heads.heads.size(), "head"), others.size());
    const analysis::HeadMatch match = match_behaviour(input, b.settings.selection, comparison.seed,
                                                      context.pool, context.progress, repeated);
    for (const std::size_t place : match.partner) partners.push_back(others[place]);
    input.partners = partners;
    inspect::add_match(changes, "behaviour", match);
  }
  if (!analysis::shape_difference(a.open.model, b.open.model)) {
    Results weights = inspect::compare_models(
        a.open, b.open, {heads, comparison.request.top, partners, changed_roles}, context.pool);
    weights.document.head = {};
    weights.text.erase(weights.text.begin());  // the names of the models
    changes.append(std::move(weights));
  }
  if (difference)
    changes.text.emplace_back(TextLine{"", "Patterns are not compared row by row: " + *difference + "."});
  else
    changes.append(
        compare_behaviour(input, comparison.request.top, context.pool, context.progress, repeated));
  changes.subtitle.clear();
  return changes;
}

}  // namespace

Results compare_weights(const inspect::OpenModel& a, const inspect::OpenModel& b,
                        const forward::Selection& selection, const ModelComparison& comparison,
                        const ComparisonContext& context) {
  std::vector<model::HeadId> partners;
  std::optional<analysis::HeadMatch> match;
  if (comparison.match && !analysis::shape_difference(a.model, b.model)) {
    const OwnedMatrix<double> similarity =
        analysis::circuit_similarities(a.model, selection.heads, b.model, selection.heads, context.pool);
    match = analysis::match_heads(similarity.view(), comparison.seed);
    for (const std::size_t place : match->partner) partners.push_back(selection.heads[place]);
  }
  Results results =
      inspect::compare_models(a, b, {selection, comparison.request.top, std::move(partners)}, context.pool);
  if (match) inspect::add_match(results, "weights", *match);
  return results;
}

void keep_comparable_measures(StudySettings& settings) {
  std::erase_if(settings.measures, [](const MeasureRow* row) { return row->max_heads > 0; });
}

Results compare_states(std::span<const StudyState> states, bool measures_named,
                       const ModelComparison& comparison, const ComparisonContext& context,
                       std::optional<StudyPair> models) {
  std::vector<Results> results;
  std::set<std::string> kernels;
  std::set<std::string> told = {"unlike_kernels"};  // codes; the studies have most warnings in common
  for (const StudyState& state : states) {
    Warnings found;
    state.check_data(measures_named, found);
    results.push_back(study_results(state, context.pool));
    for (const std::vector<Warning>& list : {found.list(), state.warnings()})
      for (const Warning& warning : list)
        if (told.insert(warning.code).second)
          context.warnings.add(warning.code, warning.message, warning.count);
    kernels.insert(state.kernels().begin(), state.kernels().end());
  }
  if (kernels.size() > 1)
    context.warnings.add("unlike_kernels",
                         fmt::format("the studies were computed with {} different kernels, which round "
                                     "differently: {}",
                                     kernels.size(), fmt::join(kernels, "+")));
  const auto sentences = [&states](std::size_t i) { return states[i].counts().sentences; };
  if (sentences(0) != sentences(1))
    context.warnings.add("unlike_sentences",
                         fmt::format("the studies skipped different sentences: a has {}, b has {}",
                                     counted(sentences(0), "sentence"), sentences(1)));
  Results changes;
  if (models)
    changes =
        compare_on_corpus(models->a, models->b, comparison, changed_roles(results[0], results[1]), context);
  ComparisonRequest request = comparison.request;
  request.without_metrics =
      std::ranges::find(changes.tables, "metric_changes", &Table::name) != changes.tables.end();
  Results compared = compare_studies(results[0], results[1], request, context.warnings);
  // What belongs to both studies comes first, then the changes of the models, then those of the studies.
  Results joined;
  joined.document.head = std::exchange(compared.document.head, {});
  joined.subtitle = std::exchange(compared.subtitle, {});
  joined.pictures = std::exchange(compared.pictures, {});
  joined.text.push_back(std::move(compared.text.front()));
  compared.text.erase(compared.text.begin());
  joined.append(std::move(changes));
  joined.append(std::move(compared));
  return joined;
}

}  // namespace attnctl::study
