#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"
#include "support/mutations.hpp"

using attnctl::model::FamilySpec;
using attnctl::model::LayerConfig;
using attnctl::model::ModelConfig;
using attnctl::test::CapturedHead;
using attnctl::test::CapturedSequence;
using attnctl::test::Golden;
using attnctl::test::GoldenArray;
using attnctl::test::Mutation;
using attnctl::test::Subject;

// Changes each property that a row gives to a model, one at a time. Each golden of the model must detect the
// change. The mutations that it cannot detect are listed here with the reason.

namespace {

/// Returns true if the pattern, scores or logits of an input differ from the golden by more than the bound.
bool differs(const Golden& golden, const std::string& name, double bound,
             const std::vector<const attnctl::OwnedMatrix<float>*>& parts) {
  if (!golden.has(name)) return false;
  const GoldenArray want = golden.array(name);
  std::size_t at = 0;
  for (const auto* part : parts) {
    for (const float value : part->values()) {
      if (at >= want.values.size()) return true;
      const double wanted = want.values[at++];
      if (wanted != double{value} && !(std::abs(wanted - double{value}) <= bound)) return true;
    }
  }
  return at != want.values.size();
}

/// Returns true if the arrays of one component differ from the golden by more than the bound.
bool component_differs(const Golden& golden, const ModelConfig& config, attnctl::model::Component component,
                       std::size_t input, const CapturedSequence& captured) {
  const std::string suffix = attnctl::test::component_suffix(component);
  const std::string number = "_" + std::to_string(input);
  const auto heads = [&](attnctl::OwnedMatrix<float> CapturedHead::*what) {
    std::vector<const attnctl::OwnedMatrix<float>*> parts;
    for (const auto& [id, head] : captured.heads) {
      if (config.layers[id.layer].component == component) parts.push_back(&(head.*what));
    }
    return parts;
  };
  const auto bound = [&](const char* kind) { return golden.array("bound_" + (kind + suffix)).values.at(0); };
  if (differs(golden, "pattern" + suffix + number, bound("pattern"), heads(&CapturedHead::pattern)) ||
      differs(golden, "scores" + suffix + number, 2e-5, heads(&CapturedHead::scores)))
    return true;
  std::vector<const attnctl::OwnedMatrix<float>*> outputs;
  for (const auto& [layer, output] : captured.output) {
    if (config.layers[layer].component == component) outputs.push_back(&output);
  }
  const std::string output = "output" + suffix + number;
  return golden.has(output) && differs(golden, output, bound("output"), outputs);
}

bool notices(const Golden& golden, const ModelConfig& config, const std::vector<CapturedSequence>& captured) {
  for (std::size_t i = 0; i < captured.size(); ++i) {
    for (const attnctl::model::Component component : attnctl::test::components_of(config)) {
      if (component_differs(golden, config, component, i, captured[i])) return true;
    }
    const std::string logits = "logits_" + std::to_string(i);
    if (golden.has(logits) &&
        differs(golden, logits, golden.array("bound_logits").values.at(0), {&captured[i].logits}))
      return true;
  }
  return false;
}

/// Returns true if the golden does not detect a changed property. An error in binding counts as detection.
bool survives(const std::filesystem::path& directory, const Golden& golden,
              const attnctl::input::Batch& batch, const Mutation& mutation, bool& applies) {
  attnctl::Warnings warnings;
  auto source = attnctl::checkpoint::open_model_source(directory.string(), {}, warnings);
  FamilySpec row = attnctl::model::family_of(source.config_path.string(), source.config);
  ModelConfig config = attnctl::model::resolve_config(row, source);
  Subject subject{row, config};
  applies = mutation.apply(subject);
  if (!applies) return false;
  try {
    const auto model = attnctl::model::Model::bind(std::move(source), row, config, warnings);
    return !notices(golden, config, attnctl::test::capture_all(model, batch, {}));
  } catch (const attnctl::Error&) {
    return false;
  }
}

bool hides_a_key(const Golden& golden) {
  for (std::size_t i = 0; i < golden.inputs(); ++i) {
    if (std::ranges::count(golden.sequence(i).key_visible, 0) > 0) return true;
  }
  return false;
}

bool holds_token(const Golden& golden, std::size_t token) {
  for (std::size_t i = 0; i < golden.inputs(); ++i) {
    if (std::ranges::count(golden.sequence(i).ids, static_cast<std::int64_t>(token)) > 0) return true;
  }
  return false;
}

/// Returns whether each expert has separate tensors; only stacked ones are packed.
bool has_single_experts(const attnctl::model::Model& model) {
  const auto tensors = model.source().weights->tensors();
  return std::ranges::any_of(
      tensors, [](const auto& tensor) { return tensor.name.find("experts.1.") != std::string::npos; });
}

/// Returns the reason why this golden cannot detect a mutation; empty if it must detect it.
std::string reason_to_survive(const std::string& mutation, const attnctl::model::Model& model,
                              const Golden& golden) {
  const ModelConfig& config = model.config();
  const LayerConfig& first = config.layers.front();
  const bool shows_logits = golden.has("logits_0");
  if (mutation == "ALiBi origin") return "the same for all keys of a query: softmax cancels it";
  if (mutation == "positions among visible tokens" && !hides_a_key(golden)) return "no input hides a key";
  if (mutation == "positions of padding" && !holds_token(golden, config.embedding.padding.value()))
    return "no input holds the token of padding";
  if (mutation == "embeddings of hidden tokens" && !hides_a_key(golden)) return "no input hides a key";
  if (mutation == "token dropout" && config.embedding.norm.kind != attnctl::model::NormKind::none &&
      !holds_token(golden, static_cast<std::size_t>(config.embedding.dropout.value().token)))
    return "no input holds the token, and the norm of embeddings cancels their scale";
  if (mutation == "packing of queries, keys and values" && first.attention.kv_heads == 1)
    return "with one key/value head the packings are the same";
  if (mutation == "packing of gate and up" && has_single_experts(model))
    return "the experts are stored one each, not packed";
  if (mutation == "weights of experts renormalised" && first.experts.softmax_after_topk)
    return "a softmax of the picked scores sums to 1";
  if (mutation == "softmax of picked experts" && config.layers.back().experts.renormalised)
    return "a softmax of all scores, renormalised over the picked, is a softmax of those";
  if (mutation == "offset of gains" && !first.norm.gain) return "its norms have no gains";
  if (mutation == "multiplier of embeddings" && config.embedding.pixels.present())
    return "images have no token embeddings";
  const auto& embedding = config.embedding;
  const bool tokens_alone =
      embedding.position == attnctl::model::PositionKind::none && embedding.token_types == 0;
  if (mutation == "multiplier of embeddings" && tokens_alone &&
      embedding.norm.kind == attnctl::model::NormKind::layer)
    return "the norm of token embeddings, to which nothing is added, cancels it";
  const bool behind_layers =
      mutation == "final norm" || mutation == "multiplier of logits" || mutation == "cap of logits";
  if (behind_layers && !shows_logits) return "the golden has no logits";
  return {};
}

}  // namespace

TEST_CASE("changing any property of a family row fails its golden") {
  std::vector<Mutation> mutations = attnctl::test::attention_mutations();
  for (const auto& more : {attnctl::test::layer_mutations(), attnctl::test::distance_mutations(),
                           attnctl::test::other_mutations()})
    mutations.insert(mutations.end(), more.begin(), more.end());
  std::size_t killed = 0;
  std::map<std::string, std::string> survivors;  // by mutation and reason: names of the goldens
  for (const auto& directory : attnctl::test::golden_models()) {
    const Golden golden(directory);
    attnctl::Warnings warnings;
    const attnctl::model::Model model = attnctl::test::bind_model(directory, warnings);
    if (model.config().family == "attention" || golden.inputs() == 0) continue;
    attnctl::input::Batch batch;
    for (std::size_t i = 0; i < golden.inputs(); ++i) batch.sequences.push_back(golden.sequence(i));
    for (const Mutation& mutation : mutations) {
      bool applies = false;
      if (!survives(directory, golden, batch, mutation, applies)) {
        killed += applies ? 1 : 0;
        continue;
      }
      const std::string name = directory.filename().string();
      CAPTURE(name);
      CAPTURE(mutation.name);
      const std::string reason = reason_to_survive(mutation.name, model, golden);
      CHECK_MESSAGE(!reason.empty(), "survives without a reason");
      survivors[mutation.name + ": " + reason] += " " + name;
    }
  }
  CHECK(killed > 1000);
  for (const auto& [what, where] : survivors) MESSAGE("survives: ", what, " (", where, " )");
}
