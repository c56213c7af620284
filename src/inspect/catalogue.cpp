#include "inspect/catalogue.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "analysis/heads_table.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl::inspect {
namespace {

// clang-format off
constexpr std::array kAnalyses = {
    //          --include        inputs by_word tables components             make                definitions
    AnalysisRow{"subspaces",     false, true,   true,  Components::each,      make_subspaces,     kSubspaceColumns},
    AnalysisRow{"composition",   false, true,   true,  Components::not_cross, make_composition,   kCompositionColumns},
    AnalysisRow{"map",           false, true,   true,  Components::each,      make_head_map,      kMapColumns},
    AnalysisRow{"rollout",       true,  true,   false, Components::none,      make_rollout,       {}},
    AnalysisRow{"flow",          true,  false,  false, Components::none,      make_flow,          {}},
    AnalysisRow{"contributions", true,  false,  true,  Components::each,      make_contributions, kContributionColumns},
    AnalysisRow{"mixing",        true,  false,  true,  Components::none,      make_mixing,        kMixingColumns},
    AnalysisRow{"routing",       true,  false,  true,  Components::none,      make_routing,       kRoutingColumns},
    AnalysisRow{"largest_value", true,  false,  true,  Components::each,      make_largest_value, kLargestValueColumns},
};

/// A value of --include that is not in kAnalyses.
struct BasicInclude {
  std::string_view name;
  bool Includes::*member;
  bool of_inputs;
  bool tables;
  std::span<const Definition> definitions = {};
};
constexpr std::array kBasicIncludes = {
    BasicInclude{"metrics",    &Includes::metrics,    true,  true},
    BasicInclude{"patterns",   &Includes::patterns,   true,  true, kPatternColumns},
    BasicInclude{"scores",     &Includes::scores,     true,  false},
    BasicInclude{"queries",    &Includes::queries,    true,  false},
    BasicInclude{"keys",       &Includes::keys,       true,  false},
    BasicInclude{"values",     &Includes::values,     true,  false},
    BasicInclude{"z",          &Includes::z,          true,  false},
    BasicInclude{"output",     &Includes::output,     true,  false},
    BasicInclude{"logits",     &Includes::logits,     true,  false},
    BasicInclude{"weights",    &Includes::weights,    false, true, kWeightColumns},
    BasicInclude{"directions", &Includes::directions, false, false},
    BasicInclude{"circuits",   &Includes::circuits,   false, false},
};
// clang-format on

}  // namespace

std::vector<std::string> include_names(bool weights_only) {
  std::vector<std::string> known;
  const auto add = [&](std::string_view name, bool of_inputs) {
    if (!weights_only || !of_inputs) known.emplace_back(name);
  };
  for (const BasicInclude& each : kBasicIncludes) add(each.name, each.of_inputs);
  for (const AnalysisRow& row : kAnalyses) add(row.include, row.of_inputs);
  return known;
}

std::vector<std::string> names_not_in_text(const Includes& includes) {
  std::vector<std::string> names;
  for (const BasicInclude& each : kBasicIncludes) {
    if (includes.*each.member && !each.tables && each.name != "logits") names.emplace_back(each.name);
  }
  return names;
}

std::vector<NamedDefinitions> definitions() {
  std::vector<NamedDefinitions> groups = {{"metrics", analysis::metric_definitions()},
                                          {"inputs", kInputColumns},
                                          {"attention_from", kAttentionFromColumns}};
  const auto add = [&](std::string_view name, std::span<const Definition> columns) {
    if (!columns.empty()) groups.push_back({name, columns});
  };
  for (const BasicInclude& each : kBasicIncludes) add(each.name, each.definitions);
  for (const AnalysisRow& row : kAnalyses) add(row.include, row.definitions);
  return groups;
}

void require_values(const AnalysisInput& input, std::string_view analysis) {
  for (const model::HeadId head : input.selection.heads) {
    if (input.config().layers[head.layer].attention.value.weight) continue;
    fail(Status::bad_input, "{}: layer {} has no values (W_v), so {} is undefined; leave it out of --include",
         escaped(input.model.name()), model::layer_name(input.config(), head.layer), analysis);
  }
}

Includes resolve_includes(const std::string& list, bool given, bool with_inputs, Form form) {
  Includes includes;
  bool of_inputs = false;
  for (const std::string_view word : split(list, ',')) {
    const auto* const basic = std::ranges::find(kBasicIncludes, word, &BasicInclude::name);
    const auto* const row = std::ranges::find(kAnalyses, word, &AnalysisRow::include);
    if (basic != kBasicIncludes.end()) {
      includes.*(basic->member) = true;
      of_inputs |= basic->of_inputs;
      continue;
    }
    if (row == kAnalyses.end())
      fail(Status::usage, "--include: unsupported \"{}\"{}; known: {}", escaped(word),
           did_you_mean(word, include_names(!with_inputs)), fmt::join(include_names(!with_inputs), ", "));
    of_inputs |= row->of_inputs;
    if (std::ranges::find(includes.analyses, row) == includes.analyses.end())
      includes.analyses.push_back(row);
  }
  // The pointers point into kAnalyses, so sorting them by address gives the order of kAnalyses.
  std::ranges::sort(includes.analyses);
  if (!with_inputs && of_inputs)
    fail(Status::usage,
         "--include: the command weights has no inputs, which some of these analyses need; it supports {}",
         fmt::join(include_names(true), ", "));
  if (form == Form::tables) {
    if (!with_inputs && !given) includes.directions = false;
    const auto require = [](bool tables, std::string_view name) {
      if (!tables)
        fail(Status::usage, "{} has no table; leave it out of --include, or use --format json or jsonl",
             name);
    };
    for (const BasicInclude& each : kBasicIncludes)
      require(each.tables || !(includes.*each.member), each.name);
    for (const AnalysisRow* row : includes.analyses) require(row->tables, row->include);
  }
  // By default, text has no patterns and directions, and a picture shows the patterns or, without inputs, the
  // weights.
  if (form == Form::text && !given) includes.patterns = includes.directions = false;
  if (form == Form::pictures && !given && with_inputs) includes.weights = false;
  return includes;
}

}  // namespace attnctl::inspect
