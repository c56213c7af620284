#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/numbers.hpp"
#include "cli/options/inputs.hpp"
#include "formats/json.hpp"
#include "forward/run.hpp"
#include "fuzz.hpp"
#include "inspect/inspection.hpp"
#include "inspect/open_model.hpp"
#include "model/accounting/accounting.hpp"
#include "model/binding/binding.hpp"
#include "model/families/family.hpp"
#include "reference/reference.hpp"

namespace {

using namespace attnctl;

// Further keys that the bytes set, and their values.
constexpr std::array kKeys = {"hidden_size",
                              "num_hidden_layers",
                              "num_attention_heads",
                              "num_key_value_heads",
                              "head_dim",
                              "intermediate_size",
                              "vocab_size",
                              "max_position_embeddings",
                              "layer_norm_eps",
                              "rms_norm_eps",
                              "hidden_act",
                              "tie_word_embeddings",
                              "attention_bias",
                              "rope_theta",
                              "rope_scaling",
                              "sliding_window",
                              "layer_types",
                              "partial_rotary_factor",
                              "num_experts",
                              "num_local_experts",
                              "num_experts_per_tok",
                              "is_decoder",
                              "type_vocab_size",
                              "pad_token_id",
                              "position_embedding_type",
                              "attn_logit_softcapping",
                              "final_logit_softcapping",
                              "use_cache",
                              "n_embd",
                              "n_head",
                              "n_layer",
                              "d_model",
                              "d_kv",
                              "num_heads",
                              "num_layers",
                              "relative_attention_num_buckets",
                              "relative_attention_max_distance",
                              "embedding_size",
                              "window_size",
                              "attention_types",
                              "alibi",
                              "multi_query",
                              "parallel_attn",
                              "bias",
                              "image_size",
                              "patch_size",
                              "num_channels",
                              "causal",
                              "heads",
                              "scale",
                              "normalize_before",
                              "scale_embedding"};
constexpr std::array kValues = {
    "null",
    "true",
    "false",
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
    "8",
    "12",
    "16",
    "-1",
    "0.0",
    "0.5",
    "1.0",
    "1e-30",
    "1e30",
    "10000.0",
    "4294967296",
    "\"gelu\"",
    "\"relu\"",
    "\"silu\"",
    "\"swish\"",
    "\"absolute\"",
    "\"relative_key\"",
    "[]",
    "[1]",
    "[0, 1]",
    "{}",
    "\"\"",
    "[\"full_attention\", \"sliding_attention\"]",
    R"({"rope_type": "linear", "factor": 2.0})",
    R"({"rope_type": "dynamic", "factor": 4.0})",
    R"({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4})",
    R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 4})",
    R"({"rope_type": "longrope", "short_factor": [1.0, 1.0], "long_factor": [1.5, 2.0],
        "original_max_position_embeddings": 4})",
    R"([[["global", "local"], 1]])"};
constexpr std::array kKinds = {"", "full", "window:2", "block:3", "strided:2", "linear"};
constexpr std::array kComponents = {"", "encoder", "decoder", "cross"};
constexpr std::size_t kMostWeights = 1U << 16U;
constexpr std::size_t kMostTokens = 1U << 12U;  // token circuits compare all pairs of tokens

/// Returns weights of one kind: small, with large and infinite values, or zeros.
std::span<const std::byte> weights_of(unsigned kind) {
  static const auto kinds = [] {
    std::array<std::vector<float>, 3> all;
    std::mt19937 random;
    for (std::vector<float>& values : all) values.resize(2 * kMostWeights);
    for (float& value : all[0]) value = std::ldexp(static_cast<float>(random() % 2001) - 1000.0F, -11);
    for (float& value : all[1]) value = std::ldexp(1.0F, static_cast<int>(random() % 300) - 150);
    all[1][77] = std::numeric_limits<float>::quiet_NaN();
    return all;
  }();
  return std::as_bytes(std::span(kinds[kind % kinds.size()]));
}

using Shapes = std::map<std::string, Shape>;

std::unique_ptr<checkpoint::Checkpoint> make_weights(const Shapes& shapes,
                                                     std::span<const std::byte> values) {
  auto weights = std::make_unique<checkpoint::Checkpoint>();
  const MappedFile& memory = weights->map("weights", values);
  for (const auto& [name, shape] : shapes) {
    const std::size_t size = checked_product(shape).value_or(0) * sizeof(float);
    if (size > values.size() / 2) fail(Status::limit, "a tensor is too large");
    const std::size_t begin = content_hash(name) % (values.size() / 2) / sizeof(float) * sizeof(float);
    weights->add(memory, {name, DType::f32, shape}, values.subspan(begin, size));
  }
  return weights;
}

/// Adds the tensors that an error of bind_tensors() says are missing, and corrects the shapes that it names.
/// Returns false if it names none.
bool learn(std::string_view error, Shapes& shapes) {
  bool any = false;
  constexpr std::string_view kMissing = " needs: ", kTensor = "tensor \"", kNeed = ", need [";
  if (const std::size_t at = error.find(kMissing); at != std::string_view::npos) {
    std::string_view names = error.substr(at + kMissing.size());
    names = names.substr(0, names.find(';'));
    for (std::string_view name : split(names, ',')) {
      while (name.starts_with(' ')) name.remove_prefix(1);
      any |= shapes.try_emplace(std::string(name.substr(0, name.find(' ')))).second;
    }
  }
  for (std::size_t at = 0; (at = error.find(kTensor, at)) != std::string_view::npos;) {
    at += kTensor.size();
    const std::string name(error.substr(at, error.find('"', at) - at));
    const std::size_t need = error.find(kNeed, at);
    if (need == std::string_view::npos || need > error.find(kTensor, at)) continue;
    Shape shape;
    const std::size_t begin = need + kNeed.size();
    for (std::string_view size : split(error.substr(begin, error.find(']', begin) - begin), ',')) {
      while (size.starts_with(' ')) size.remove_prefix(1);
      shape.push_back(parse_number(size).value_or(0));
    }
    any |= std::exchange(shapes[name], shape) != shape;
  }
  return any;
}

/// Returns a model with the tensors that its configuration needs, or throws an Error.
model::Model make_model(const nlohmann::ordered_json& json, std::span<const std::byte> values,
                        Warnings& warnings) {
  checkpoint::ModelSource source;
  source.given = source.config_path = "config.json";
  source.config = json;
  source.config_text = json.dump();
  const model::FamilySpec family = model::family_of("config.json", json);
  Shapes shapes;
  if (family.sizes_from_tensors) {
    for (const char* const name : {"W_k", "W_o", "W_q", "W_v"}) shapes[name] = {12, 12};
  }
  source.weights = make_weights(shapes, values);
  model::ModelConfig config = model::resolve_config(family, source);
  if (config.layers.size() > 6 || model::count_parameters(config).all > kMostWeights ||
      config.output_embedding().vocabulary > kMostTokens ||
      (config.embedding.pixels.present() &&
       (config.embedding.pixels.patches() > 64 || config.embedding.pixels.image_size() > kMostWeights)))
    fail(Status::limit, "the model is too large");
  for (int step = 0; step < 64; ++step) {
    std::string error;
    try {
      (void)model::bind_tensors(family, config, *source.weights, "config.json");
      break;
    } catch (const Error& fault) {
      error = fault.what();
    }
    if (!learn(error, shapes)) break;
    source.weights = make_weights(shapes, values);
  }
  return model::Model::bind(std::move(source), family, std::move(config), warnings);
}

/// The bytes that choose what to compute; zeros after their end.
struct Choices {
  std::string_view bytes;
  std::size_t next(std::size_t below) {
    const std::size_t value = bytes.empty() ? 0 : static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(std::min<std::size_t>(bytes.size(), 1));
    return value % below;
  }
};

}  // namespace

// A config.json, a byte 0, and bytes that choose the inputs, the analyses and changes of the configuration.
// Weights are made for it. Analyses of a configuration that is accepted, and the pass in float64, then throw
// only Errors.
ATTNCTL_FUZZ_TARGET(pass) {
  static Pool pool(1);
  const std::size_t end = std::min(bytes.find('\0'), bytes.size());
  nlohmann::ordered_json json = formats::parse_json("config.json", bytes.substr(0, end));
  if (!json.is_object()) return;
  Choices choose{bytes.substr(std::min(end + 1, bytes.size()))};
  const std::size_t what = choose.next(5);  // the form of the results, or the pass in float64
  const auto values = weights_of(static_cast<unsigned>(choose.next(3)));
  const std::size_t length = 1 + choose.next(12), target_length = 1 + choose.next(5),
                    inputs = 1 + choose.next(2);
  const std::string kind = kKinds[choose.next(kKinds.size())];
  const std::string component = kComponents[choose.next(kComponents.size())];
  const std::size_t flags = choose.next(256), sizes = choose.next(256);
  std::size_t left_out = choose.next(256);
  left_out += choose.next(256) << 8U | choose.next(256) << 16U;
  while (!choose.bytes.empty()) {
    const char* const key = kKeys[choose.next(kKeys.size())];
    json[key] = nlohmann::ordered_json::parse(kValues[choose.next(kValues.size())]);
  }

  Warnings warnings;
  model::Model model = make_model(json, values, warnings);
  if (!kind.empty()) {
    const auto layers =
        inspect::select_layers({.component = component, .layers = "", .heads = ""}, model.config());
    model = model.with_attention(*cli::parse_attention_option("--attention", kind), layers);
  }
  const tokenizer::Vocabulary vocabulary(model.config().vocabulary, {});
  input::Batch batch;
  batch.sequences = cli::seeded_inputs(model.config(), inputs, length, target_length);
  input::finish_batch(batch, vocabulary);
  if ((flags & 1U) != 0) batch.sequences[0].key_visible.assign(batch.sequences[0].keys(), 0);
  if ((flags & 2U) != 0) batch.sequences[0].causal = (flags & 1U) == 0;

  if (what == 4) {
    forward::check_batch(model, batch);
    const bool logits = model.config().head.present;
    for (const input::Sequence& sequence : batch.sequences)
      (void)reference::run_reference(model, sequence, model.config().layers.size() - 1, logits, pool);
    return;
  }

  const std::vector<std::string> names = inspect::include_names();
  inspect::InspectRequest request;
  constexpr std::array kForms = {inspect::Form::document, inspect::Form::tables, inspect::Form::text,
                                 inspect::Form::page};
  request.form = kForms.at(what);
  request.selection =
      inspect::select_heads({.component = component, .layers = "", .heads = ""}, model.config());
  for (std::size_t i = 0; i < names.size(); ++i) {
    // Analyses refuse several components, layers without experts, or what the configuration lacks.
    const bool several = model.config().decoder && component.empty() && i >= 12;
    const bool lacking = names[i] == "routing" && model.config().layers.front().experts.count == 0;
    if ((left_out >> i & 1U) == 0 && !several && !lacking) request.includes.set(names[i], true);
  }
  request.per_input = (flags & 4U) != 0;
  request.by_word = (flags & 8U) != 0;
  request.from = (flags & 16U) != 0 ? "0" : "";
  if ((flags & 32U) != 0) request.order = inspect::HeadOrder::cluster;
  if ((flags & 64U) != 0) request.weighting = analysis::Weighting::norm;
  request.weights.across_layers = (flags & 128U) != 0;
  request.weights.fold_norm = (sizes & 128U) != 0;
  request.limit = 20'000;
  forward::RunContext context{.pool = pool, .warnings = warnings};
  context.panel_rows = 1 + sizes % 8;
  context.packed_rows = 1 + sizes / 8 % 4 * 8;
  context.streamed_rows = sizes / 32 % 4;
  inspect::Inspection inspection(request, {model, vocabulary, batch}, context);
  fuzz::write_all(inspection.run());
}
