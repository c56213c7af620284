#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "base/pool.hpp"
#include "base/text.hpp"
#include "inspect/inspection.hpp"
#include "support/golden.hpp"

namespace attnctl::inspect {
namespace {

TEST_CASE("every column of the tables of analyze has a definition with a meaning") {
  const std::string folder = ATTNCTL_SOURCE_DIR "/tests/golden/qwen2_moe";
  Warnings warnings;
  const model::Model model = test::bind_model(folder, warnings);
  input::Batch batch;
  batch.sequences.push_back(test::Golden(folder).sequence(0));
  InspectRequest request;
  request.form = Form::tables;
  request.includes = resolve_includes(
      "metrics,patterns,scores,queries,keys,values,z,output,logits,weights,directions,circuits,subspaces,"
      "composition,token_circuits,map,rollout,flow,contributions,mixing,routing,largest_value,sinks,"
      "activations",
      true, Given::inputs, request.form);
  request.selection = forward::Selection::all(model.config());
  request.weights.across_layers = true;
  request.from = "0";
  Pool pool(2);
  const tokenizer::Vocabulary vocabulary;
  Inspection inspection(request, {.model = model, .vocabulary = vocabulary, .batch = batch},
                        {.pool = pool, .warnings = warnings});
  const std::vector<NamedDefinitions> groups = definitions();
  std::set<std::string> found;
  for (const Table& table : inspection.run().tables) {
    found.insert(table.name);
    for (const Column& column : table.columns) {
      CAPTURE(table.name);
      CAPTURE(column.name);
      REQUIRE(column.definition != nullptr);
      CHECK_FALSE(column.definition->meaning.empty());
      const auto has = [&](std::span<const Definition> definitions) {
        return std::ranges::any_of(definitions,
                                   [&](const Definition& each) { return &each == column.definition; });
      };
      CHECK((has(key_definitions()) || std::ranges::any_of(groups, has, &NamedDefinitions::definitions)));
    }
  }
  std::set<std::string> expected;
  for (const std::string_view name :
       split("inputs,heads,patterns,attention_from,scores,queries,keys,values,z,output,logits,predictions,"
             "subspace_similarity,singular_values,principal_directions,circuits,subspaces,projection_kernel,"
             "principal_cosines,composition,token_circuits,token_pairs,map,linkage,rollout,rollout_last_"
             "layer,flow,contributions,"
             "output_rank,mixing,routing,largest_value,sinks,sink_rates,activations",
             ','))
    expected.emplace(name);
  CHECK(found == expected);
}

TEST_CASE("the definitions of analyze have meanings and different names") {
  for (const NamedDefinitions& group : definitions()) {
    CAPTURE(group.where);
    std::set<std::string_view> names;
    for (const Definition& each : group.definitions) {
      CAPTURE(each.name);
      CHECK_FALSE(each.meaning.empty());
      CHECK(names.insert(each.name).second);
    }
  }
}

}  // namespace
}  // namespace attnctl::inspect
