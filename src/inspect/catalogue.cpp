#include "inspect/catalogue.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "analysis/heads_table.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl::inspect {
namespace {

constexpr Given kWeights = Given::weights, kInputs = Given::inputs, kPatterns = Given::patterns;

// clang-format off
constexpr std::array kIncludes = {
    //          --include        needs     by_word text   components             make                definitions
    AnalysisRow{"metrics",       kPatterns, true,   true,  Components::each,      nullptr,            {}},
    AnalysisRow{"patterns",      kPatterns, true,   true,  Components::each,      nullptr,            kPatternColumns},
    AnalysisRow{"scores",        kInputs,   false,  false, Components::each,      nullptr,            kScoreColumns},
    AnalysisRow{"queries",       kInputs,   false,  false, Components::each,      nullptr,            kQueryColumns},
    AnalysisRow{"keys",          kInputs,   false,  false, Components::each,      nullptr,            kKeyColumns},
    AnalysisRow{"values",        kInputs,   false,  false, Components::each,      nullptr,            kValueColumns},
    AnalysisRow{"z",             kInputs,   false,  false, Components::each,      nullptr,            kZColumns},
    AnalysisRow{"output",        kInputs,   false,  false, Components::each,      nullptr,            kOutputColumns},
    AnalysisRow{"logits",        kInputs,   false,  true,  Components::each,      nullptr,            kLogitColumns},
    AnalysisRow{"weights",       kWeights,  true,   true,  Components::each,      nullptr,            kWeightColumns},
    AnalysisRow{"directions",    kWeights,  true,   false, Components::each,      nullptr,            kDirectionColumns},
    AnalysisRow{"circuits",      kWeights,  true,   false, Components::each,      nullptr,            kCircuitColumns},
    AnalysisRow{"subspaces",     kWeights,  true,   true,  Components::each,      make_subspaces,     kSubspaceColumns},
    AnalysisRow{"composition",   kWeights,  true,   true,  Components::not_cross, make_composition,   kCompositionColumns},
    AnalysisRow{"token_circuits", kWeights,  true,  true,  Components::not_cross, make_token_circuits, kTokenCircuitColumns},
    AnalysisRow{"map",           kWeights,  true,   true,  Components::each,      make_head_map,      kMapColumns},
    AnalysisRow{"rollout",       kPatterns, true,   true,  Components::none,      make_rollout,       kRolloutColumns},
    AnalysisRow{"flow",          kPatterns, false,  true,  Components::none,      make_flow,          kFlowColumns},
    AnalysisRow{"contributions", kInputs,   false,  true,  Components::each,      make_contributions, kContributionColumns},
    AnalysisRow{"mixing",        kInputs,   false,  true,  Components::none,      make_mixing,        kMixingColumns},
    AnalysisRow{"routing",       kInputs,   false,  true,  Components::none,      make_routing,       kRoutingColumns},
    AnalysisRow{"largest_value", kInputs,   false,  true,  Components::each,      make_largest_value, kLargestValueColumns},
    AnalysisRow{"sinks",         kInputs,   false,  true,  Components::each,      make_sinks,         kSinkColumns},
    AnalysisRow{"activations",   kInputs,   false,  true,  Components::each,      make_activations,   kActivationColumns},
};
// clang-format on

}  // namespace

std::vector<std::string> include_names(Given given) {
  std::vector<std::string> known;
  for (const AnalysisRow& row : kIncludes) {
    if (row.possible(given)) known.emplace_back(row.include);
  }
  return known;
}

bool Includes::has(std::string_view name) const {
  return std::ranges::find(rows, name, &AnalysisRow::include) != rows.end();
}

void Includes::set(std::string_view name, bool wanted) {
  std::erase_if(rows, [&](const AnalysisRow* row) { return row->include == name; });
  if (wanted) rows.push_back(std::ranges::find(kIncludes, name, &AnalysisRow::include));
  std::ranges::sort(rows);  // by address, which is the order of kIncludes
}

std::vector<NamedDefinitions> definitions() {
  std::vector<NamedDefinitions> groups = {{"metrics", analysis::metric_definitions()},
                                          {"inputs", kInputColumns},
                                          {"attention_from", kAttentionFromColumns}};
  for (const AnalysisRow& row : kIncludes) {
    if (!row.definitions.empty()) groups.push_back({row.include, row.definitions});
  }
  return groups;
}

void require_values(const AnalysisInput& input, std::string_view analysis) {
  for (const model::HeadId head : input.selection.heads) {
    if (input.config().layers[head.layer].attention.value.weight) continue;
    fail(Status::bad_input, "{}: layer {} has no values (W_v), so {} is undefined; leave it out of --include",
         escaped(input.model.name()), model::layer_name(input.config(), head.layer), analysis);
  }
}

Includes resolve_includes(const std::string& list, bool given, Given from, Form form) {
  Includes includes;
  for (const std::string_view word : split(list, ',')) {
    const auto* const row = std::ranges::find(kIncludes, word, &AnalysisRow::include);
    const std::vector<std::string> names = include_names(from);
    if (row == kIncludes.end())
      fail(Status::usage, "--include: unsupported \"{}\"{}; known: {}", escaped(word),
           did_you_mean(word, names), fmt::join(names, ", "));
    if (!row->possible(from))
      fail(Status::usage, "--include: the command {} supports {}",
           from == Given::weights ? "weights has no inputs, which some of these analyses need; it"
                                  : "view has only patterns, and some of these analyses need the model; it",
           fmt::join(names, ", "));
    includes.set(word, true);
  }
  // By default, text, tables and pages have no directions, and text has no patterns. A picture shows patterns
  // or, without inputs, weights.
  if (given) return includes;
  if (form == Form::text || has_tables(form)) includes.set("directions", false);
  if (form == Form::text) includes.set("patterns", false);
  if (form == Form::pictures && from == Given::inputs) includes.set("weights", false);
  return includes;
}

}  // namespace attnctl::inspect
