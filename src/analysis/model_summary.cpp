#include "analysis/model_summary.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/head_axes.hpp"
#include "base/numbers.hpp"
#include "checkpoint/checkpoint.hpp"
#include "model/accounting/accounting.hpp"
#include "model/families/family.hpp"

namespace attnctl::analysis {
namespace {

using model::FamilySpec;

constexpr std::size_t kUsualLength = 512;

/// The columns of the table `apart`, then those of `tensors`.
constexpr std::array<Definition, 7> kTensorColumns = {
    {{"role", "", "tied, buffer or unused", "", "copy of a parameter, not trained, or not used by the model"},
     {"values", "", "from 0", "", "number of values of the tensor"},
     {"copy_of", "", "", "", "tensor that a tied tensor is a copy of"},
     {"name", "", "", "", "name of the tensor in the checkpoint"},
     {"dtype", "", "", "", "type of the values in the file"},
     {"shape", "", "", "", "extents of the axes"},
     {"file", "", "", "", "file of the checkpoint that contains the tensor"}}};
constexpr std::array<Definition, 7> kLayerColumns = {
    {{"query", "", "from 0", "", "number of parameters of W_Q and its bias"},
     {"key", "", "from 0", "", "number of parameters of W_K and its bias"},
     {"value", "", "from 0", "", "number of parameters of W_V and its bias"},
     {"output", "", "from 0", "", "number of parameters of W_O and its bias"},
     {"attention", "", "from 0", "", "number of parameters of the attention"},
     {"all", "", "from 0", "", "number of parameters of the layer"},
     {"shared_with", "", "from 0", "",
      "first layer with the same weights; undefined if that is this layer"}}};
constexpr std::array<Definition, 3> kSummaryColumns = {
    {{"part", "", "", "", "key of the part in JSON, such as architecture; length and batch have none"},
     {"property", "", "", "", "key of the value in this part"},
     {"value", "", "", "", "a number, a text, true or false"}}};
constexpr std::array<Definition, 8> kFamilyColumns = {
    {{"name", "", "", "", "name of the family"},
     {"kind", "", "", "", "encoder, decoder, encoder-decoder, vision, or mechanism (only attention)"},
     {"norm", "", "", "", "kind of the norm, and its place"},
     {"position", "", "", "", "how positions are added to embeddings, scores, or queries and keys"},
     {"activation", "", "", "", "default activation function of the MLP, and whether it is gated"},
     {"mask", "", "", "", "kinds of mask: causal or none, causal in the decoder, windows"},
     {"packing", "", "", "",
      "projections in one tensor; [in, out]: axes of stored matrices, if not [out, in]"},
     {"specials", "", "", "", "other properties (docs/families.md)"}}};

/// A section of a summary. A record is a field of the JSON document, and in text a two-column table of its
/// values. A table is a section of the document and a table in text.
struct SummaryPart {
  std::string name;   // "flops"
  std::string title;  // heading in text
  std::variant<Record, Table> content;
  std::string record = {};     // name of one row of a table in JSON Lines
  const char* what = "value";  // heading of the value column of a record in text
};

List components_list(const model::ModelConfig& config) {
  List components;
  for (const model::Component component :
       {model::Component::encoder, model::Component::decoder, model::Component::cross}) {
    const auto first = std::ranges::find(config.layers, component, &model::LayerConfig::component);
    components.emplace_back(Record{{{"component", std::string(name_of(component))},
                                    {"layers", config.layers_of(component)},
                                    {"heads", first->attention.heads},
                                    {"kv_heads", first->attention.kv_heads},
                                    {"d_head", first->attention.d_head},
                                    {"d_value", first->attention.d_value}}});
  }
  return components;
}

const char* name_of(model::NormKind kind) {
  return kind == model::NormKind::layer ? "layer" : kind == model::NormKind::rms ? "rms" : "none";
}

constexpr std::pair<model::NormPlace, const char*> kNormPlaces[] = {{model::NormPlace::pre, "pre"},
                                                                    {model::NormPlace::post, "post"},
                                                                    {model::NormPlace::output, "output"},
                                                                    {model::NormPlace::both, "both"},
                                                                    {model::NormPlace::stream, "stream"}};

const char* name_of(model::NormPlace place) {
  const auto* const row =
      std::ranges::find(kNormPlaces, place, &std::pair<model::NormPlace, const char*>::first);
  return row == std::end(kNormPlaces) ? "none" : row->second;
}

std::string position_of(const model::ModelConfig& config) {
  if (config.layers.front().attention.rotary) return "rotary";
  const model::PositionKind kind = config.embedding.position;
  return kind == model::PositionKind::learned ? "learned"
         : kind == model::PositionKind::none  ? "none"
                                              : "sinusoidal";
}

struct NamedRole {
  model::TensorRole role;
  const char* name;
  const char* stored;  // key in the record "stored"
};
constexpr NamedRole kRoles[] = {{model::TensorRole::parameter, "parameter", "parameters"},
                                {model::TensorRole::tied, "tied", "tied"},
                                {model::TensorRole::buffer, "buffer", "buffers"},
                                {model::TensorRole::unused, "unused", "unused"}};

const char* name_of(model::TensorRole role) {
  return std::ranges::find(kRoles, role, &NamedRole::role)->name;
}

std::size_t values_of(const checkpoint::TensorInfo& tensor) {
  return checked_product(tensor.shape).value();
}

/// Returns the record "model" for a configuration. `path` is null for a configuration without weights.
Record config_record(const model::ModelConfig& config, Value path, std::uint64_t parameters) {
  const model::AttentionConfig& attention = config.layers.front().attention;
  Record record;
  record.set("path", std::move(path))
      .set("family", config.family)
      .set("layers", config.decoder ? config.layers_of(model::Component::encoder) +
                                          config.layers_of(model::Component::decoder)
                                    : config.layers.size())
      .set("heads", attention.heads)
      .set("kv_heads", attention.kv_heads)
      .set("d_model", config.d_model)
      .set("d_head", attention.d_head)
      .set("d_value", attention.d_value == 0 ? Value() : Value(attention.d_value))
      .set("parameters", static_cast<std::size_t>(parameters))
      .set("position_in_scores", config.position_in_scores());
  if (config.decoder) record.set("components", components_list(config));
  const auto kind = [](const model::LayerConfig& layer) { return to_string(layer.attention.kind); };
  const auto special = [](const model::LayerConfig& layer) {
    return layer.attention.kind != model::AttentionKind{};
  };
  if (std::ranges::any_of(config.layers, special)) record.set("attention", texts_of(config.layers, kind));
  const auto has_sinks = [](const model::LayerConfig& layer) { return layer.attention.sinks; };
  if (std::ranges::any_of(config.layers, has_sinks)) record.set("sinks", true);
  return record;
}

Record subject_record(const SummarySubject& subject) {
  if (subject.model != nullptr) return model_record(*subject.model);
  const std::uint64_t parameters = model::count_parameters(subject.config).all;
  Record record = config_record(subject.config, Value(), parameters);
  if (subject.preset != nullptr)
    record.set("preset", std::string(subject.preset->name))
        .set("title", std::string(subject.preset->title))
        .set("attentions", subject.preset->attentions());
  return record;
}

Record architecture_record(const SummarySubject& subject) {
  const model::ModelConfig& config = subject.config;
  const model::LayerConfig& layer = config.layers.front();
  Record record;
  record.set("vocabulary", config.embedding.vocabulary)
      .set("positions", config.max_positions)
      .set("position", position_of(config))
      .set("causal", layer.attention.causal)
      .set("norm", name_of(layer.norm.kind))
      .set("norm_place", name_of(layer.place))
      .set("mlp_width", layer.mlp.width)
      .set("mlp_gated", layer.mlp.gated)
      .set("output_head", config.head.present);
  if (subject.model == nullptr) return record;
  Record dropout;  // the top-level numbers of the configuration whose key contains "drop"
  for (const auto& [key, value] : subject.model->source().config.items()) {
    if (value.is_number() && key.find("drop") != std::string::npos) dropout.set(key, value.get<double>());
  }
  record.set("unused_tensors", subject.model->unused_tensors()).set("dropout", std::move(dropout));
  return record;
}

/// Returns the number of values in the checkpoint, in total and for each tensor role (see kRoles).
Record stored_record(const model::Model& model) {
  const auto tensors = model.source().weights->tensors();
  std::map<model::TensorRole, std::size_t> counts;
  std::size_t all = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t values = values_of(tensors[i]);
    counts[model.tensor_uses()[i].role] += values;
    all += values;
  }
  Record record;
  record.set("all", all);
  for (const NamedRole& row : kRoles) record.set(row.stored, counts[row.role]);
  return record;
}

Table tensors_apart(const model::Model& model) {
  const auto tensors = model.source().weights->tensors();
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const model::TensorUse& use = model.tensor_uses()[i];
    if (use.role == model::TensorRole::parameter) continue;
    rows.push_back({tensors[i].name, std::string(name_of(use.role)), cell_of(values_of(tensors[i])),
                    use.role == model::TensorRole::tied ? Cell(tensors[use.copy_of].name) : Cell()});
  }
  return make_table("apart", columns_of(kTensorColumns, {"name", "role", "values", "copy_of"}),
                    std::move(rows));
}

Record parameters_record(const SummarySubject& subject, const model::ParameterCount& parameters) {
  Record record;
  record.set("all", parameters.all).set("attention", parameters.attention);
  const std::size_t layers = subject.config.layers.size();
  if (subject.preset != nullptr && subject.preset->attentions() != layers)
    record.set("attention_of_both_stacks", parameters.attention / layers * subject.preset->attentions());
  record.set("mlp", parameters.mlp)
      .set("norms", parameters.norms)
      .set("embedding", parameters.embedding)
      .set("head", parameters.head);
  return record;
}

/// Returns the first layer with the same weights as `layer`. Undefined if no earlier layer has them.
Cell shared_with(const model::ModelConfig& config, std::size_t layer) {
  const auto first =
      std::ranges::find(config.layers, config.layers[layer].stored(), &model::LayerConfig::stored);
  const auto index = static_cast<std::size_t>(first - config.layers.begin());
  return index == layer ? Cell() : cell_of(index);
}

Table layers_table(const model::ModelConfig& config, const model::ParameterCount& parameters) {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < parameters.layers.size(); ++i) {
    const model::LayerParameters& layer = parameters.layers[i];
    std::vector<Cell>& row = rows.emplace_back();
    if (config.decoder) row.push_back(component_cell(config, i));
    row.insert(row.end(),
               {number_cell(config, i), cell_of(layer.query), cell_of(layer.key), cell_of(layer.value),
                cell_of(layer.output), cell_of(layer.attention), cell_of(layer.all), shared_with(config, i)});
  }
  std::vector<Column> columns = columns_of(kLayerColumns, {"component", "layer", "query", "key", "value",
                                                           "output", "attention", "all", "shared_with"});
  if (!config.decoder) columns.erase(columns.begin());
  return make_table("layers", std::move(columns), std::move(rows));
}

Table tensors_table(const checkpoint::Checkpoint& weights) {
  std::vector<std::vector<Cell>> rows;
  for (const checkpoint::TensorInfo& tensor : weights.tensors())
    rows.push_back(
        {tensor.name, std::string(name_of(tensor.dtype)), to_string(tensor.shape), std::string(tensor.file)});
  return make_table("tensors", columns_of(kTensorColumns, {"name", "dtype", "shape", "file"}),
                    std::move(rows));
}

std::vector<SummaryPart> summary_parts(const SummarySubject& subject, const SummaryRequest& asked,
                                       std::size_t length) {
  const model::ModelConfig& config = subject.config;
  const model::Model* const model = subject.model;
  const model::ParameterCount parameters = model::count_parameters(config);
  const model::FlopCount flops = model::count_flops(config, length);
  const model::PatternMemory patterns = model::count_pattern_memory(config, length);
  const std::string tokens = counted(length, "token");
  std::vector<SummaryPart> parts;
  parts.push_back({"model", "Model", subject_record(subject)});
  parts.push_back({"architecture", "Architecture", architecture_record(subject)});
  parts.push_back({"parameters", "Parameters", parameters_record(subject, parameters), "", "parameters"});
  if (model != nullptr)
    parts.push_back({"stored", "Values in the checkpoint", stored_record(*model), "", "values"});
  parts.push_back({"flops", fmt::format("FLOPs of one sequence of {} (a multiply-add is 2)", tokens),
                   Record{{{"all", flops.all},
                           {"projections", flops.projections},
                           {"scores", flops.scores},
                           {"values", flops.values},
                           {"output", flops.output},
                           {"mlp", flops.mlp},
                           {"embedding", flops.embedding},
                           {"head", flops.head}}},
                   "", "FLOPs"});
  parts.push_back({"memory_bytes", fmt::format("Memory at {}, float32", tokens),
                   Record{{{"patterns", patterns.all},
                           {"patterns_of_a_layer", patterns.layer},
                           {"key_value_cache_per_token", model::count_cache_bytes(config)}}},
                   "", "bytes"});
  parts.push_back({"comparison", "Attention of one layer in each variant of its heads, " + tokens,
                   model::compare_attention(config, length), "variant"});
  parts.push_back({"layers", "Parameters of each layer", layers_table(config, parameters), "layer"});
  Table sharing = model::sharing_table(config, model);
  if (sharing.rows > 0) parts.push_back({"sharing", "Shared and factorised", std::move(sharing), "shared"});
  if (model != nullptr) {
    Table apart = tensors_apart(*model);
    if (apart.rows > 0)
      parts.push_back({"apart", "Tensors that are not parameters of the model", std::move(apart), "apart"});
  }
  if (asked.shapes)
    parts.push_back({"shapes", fmt::format("Shapes, batch {}, {}", asked.batch, tokens),
                     model::shape_walk(config, asked.batch, length), "shape"});
  if (asked.tensors && model != nullptr)
    parts.push_back({"tensors", "Tensors", tensors_table(*model->source().weights), "tensor"});
  return parts;
}

/// Returns a record as a table with one row per value. Leaves out values that are not single cells.
Table record_table(const SummaryPart& part, const Record& record) {
  std::vector<std::vector<Cell>> rows;
  for (const auto& [name, value] : record.fields) {
    if (const Cell* single = std::get_if<Cell>(&value.data)) rows.push_back({name, *single});
  }
  const std::string what = part.what;
  return make_table(part.name, {what == "value" ? "property" : "part", what}, std::move(rows));
}

/// Returns the comparison of attention variants with one column per variant. Marks the variant of the model.
Table side_by_side(const Table& comparison) {
  constexpr std::size_t labels = 2;  // columns "variant" and "own"
  std::vector<Column> header = {"of a layer"};
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = labels; i < comparison.columns.size(); ++i) rows.push_back({comparison.columns[i]});
  std::vector<Cell> cells(comparison.columns.size());
  for (std::size_t variant = 0; variant < comparison.rows; ++variant) {
    comparison.row(variant, cells);
    header.push_back(std::get<std::string>(cells[0]) + (std::get<bool>(cells[1]) ? " (own)" : ""));
    for (std::size_t i = labels; i < cells.size(); ++i) rows[i - labels].push_back(cells[i]);
  }
  return make_table(comparison.name, std::move(header), std::move(rows));
}

struct Words {
  std::vector<std::string> list;

  void add(bool holds, std::string_view word) {
    if (holds) list.emplace_back(word);
  }
  [[nodiscard]] Cell cell() const {
    return list.empty() ? Cell() : Cell(fmt::format("{}", fmt::join(list, ", ")));
  }
};

/// Returns whether a model family, or one of its variants, has a property.
template <typename Property>
bool may(const FamilySpec& row, const Property& property) {
  return property(row) || std::ranges::any_of(row.variants, [&](const model::Variant& variant) {
           FamilySpec other = row;
           variant.apply(other);
           return property(other);
         });
}

std::string kind_of(const FamilySpec& row) {
  if (row.sizes_from_tensors) return "mechanism";
  if (!row.embedding.class_token.empty()) return "vision";
  if (row.decoder) return "encoder-decoder";
  return row.causal ? "decoder" : "encoder";
}

Cell norm_of(const FamilySpec& row) {
  Words words;
  const std::string offset = row.gain_offset != 0 ? " 1 + gain" : "";
  words.add(row.norm == model::NormKind::layer, "layer" + offset);
  words.add(row.norm == model::NormKind::rms, "rms" + offset);
  for (const auto& [place, name] : kNormPlaces)
    words.add(may(row, [&, wanted = place](
                           const FamilySpec& each) { return !each.parallel && each.place == wanted; }),
              name);
  words.add(may(row, [](const FamilySpec& each) { return each.parallel; }), "parallel");
  return words.cell();
}

Cell position_of(const FamilySpec& row) {
  Words words;
  const auto has = [&](model::PositionKind kind) {
    return may(row, [&](const FamilySpec& each) { return each.embedding_config.position == kind; });
  };
  words.add(has(model::PositionKind::learned), "learned");
  words.add(has(model::PositionKind::sinusoidal) || has(model::PositionKind::sinusoidal_halves),
            "sinusoidal");
  std::string rotary = "rotary";
  if (row.rotary && row.rotary->pairing == model::RotaryPairing::interleaved) rotary += " interleaved";
  if (row.rotary && row.rotary->fraction != 1) rotary += fmt::format(" {}", row.rotary->fraction);
  words.add(may(row, [](const FamilySpec& each) { return each.rotary.has_value(); }), rotary);
  words.add(may(row, [](const FamilySpec& each) { return each.alibi.has_value(); }), "ALiBi");
  words.add(row.relative.has_value(), "relative buckets");
  words.add(row.disentangled.has_value(), "disentangled");
  return words.cell();
}

Cell activation_of(const FamilySpec& row) {
  if (row.keys.activation.default_value.empty()) return {};
  const model::LayerSpec& layer = row.layer;
  const bool gated =
      !layer.mlp.gate.weight.empty() || (layer.experts && !layer.experts->each.gate.weight.empty());
  return row.keys.activation.default_value + (gated ? ", gated" : "");
}

Cell mask_of(const FamilySpec& row) {
  Words words;
  words.add(true, row.causal ? "causal" : "none");
  words.add(row.decoder.has_value(), "causal in the decoder");
  words.add(row.window.has_value(), "windows");
  return words.cell();
}

constexpr std::pair<model::Packing, const char*> kPackings[] = {
    {model::Packing::query_key_value, "q k v"},
    {model::Packing::by_head, "q k v by head"},
    {model::Packing::by_key_head, "q k v by group"},
    {model::Packing::in_four_blocks, "q v k in 4 blocks"},
    {model::Packing::gate_up, "gate up"},
    {model::Packing::gate_up_by_turns, "gate up by turns"},
};

Cell packing_of(const FamilySpec& row) {
  const auto packed = [](const FamilySpec& each, model::Packing packing) {
    const model::LayerSpec& layer = each.layer;
    std::vector<const model::LinearSpec*> linears = {&layer.query, &layer.mlp.up};
    if (layer.experts) linears.push_back(&layer.experts->each.up);
    return std::ranges::any_of(linears, [&](const model::LinearSpec* linear) {
      return std::ranges::any_of(
          linear->weight, [&](const model::StoredTensor& tensor) { return tensor.packing == packing; });
    });
  };
  Words words;
  for (const auto& [packing, name] : kPackings)
    words.add(may(row, [&, wanted = packing](const FamilySpec& each) { return packed(each, wanted); }), name);
  const auto& query = row.layer.query.weight;
  words.add(!query.empty() && query.front().axes == model::Axes::in_out, "[in, out]");
  return words.cell();
}

bool is_set(const model::NumberKey& key, double neutral) {
  return !key.names.empty() || key.default_value != neutral;
}

Cell specials_of(const FamilySpec& row) {
  Words words;
  const model::ConfigKeys& keys = row.keys;
  const model::LayerSpec& layer = row.layer;
  words.add(may(row,
                [](const FamilySpec& each) {
                  return !each.keys.kv_heads.names.empty() || each.keys.kv_heads.default_value;
                }),
            "shared key/value heads");
  words.add(may(row, [](const FamilySpec& each) { return each.layer.query_norm.present(); }),
            "norm of q and k");
  words.add(!layer.sinks.empty(), "sinks");
  words.add(layer.experts.has_value(), "experts");
  words.add(row.convolution.has_value(), "convolution");
  words.add(row.embedding_config.dropout.has_value(), "token dropout");
  words.add(row.keys.groups.default_value.has_value(), "layers share weights");
  words.add(may(row, [](const FamilySpec& each) { return is_set(each.keys.scale, 0); }), "score scale");
  words.add(is_set(keys.soft_cap, 0), "soft cap");
  words.add(is_set(keys.clip, 0), "clipped q k v");
  words.add(may(row,
                [](const FamilySpec& each) {
                  return each.scale_embedding || is_set(each.keys.embedding_multiplier, 1);
                }),
            "scaled embedding");
  words.add(is_set(keys.residual_multiplier, 1), "scaled branches");
  words.add(is_set(keys.logit_multiplier, 1) || is_set(keys.logit_soft_cap, 0), "scaled logits");
  words.add(!row.embedding.projection.weight.empty(), "projected embedding");
  words.add(!keys.padding.names.empty() || keys.padding.default_value, "positions after the padding id");
  return words.cell();
}

Table families_table() {
  std::vector<std::vector<Cell>> rows;
  for (const FamilySpec& row : model::families())
    rows.push_back({row.name, kind_of(row), norm_of(row), position_of(row), activation_of(row), mask_of(row),
                    packing_of(row), specials_of(row)});
  return make_table("families", {kFamilyColumns.begin(), kFamilyColumns.end()}, std::move(rows));
}

}  // namespace

Record model_record(const model::Model& model) {
  return config_record(model.config(), model.name(), model.parameters());
}

std::vector<NamedDefinitions> summary_definitions() {
  std::vector<NamedDefinitions> groups = model::definitions();
  groups.insert(groups.end(), {{"summary", kSummaryColumns},
                               {"layers", kLayerColumns},
                               {"apart", std::span(kTensorColumns).first<4>()},
                               {"tensors", std::span(kTensorColumns).last<4>()},
                               {"families", kFamilyColumns}});
  return groups;
}

Results model_summary(const std::optional<SummarySubject>& subject, const SummaryRequest& asked) {
  Results results;
  Document& document = results.document;
  if (asked.families) results.text.emplace_back(TextTable{"Families", families_table()});
  if (subject) {
    const std::size_t positions = subject->config.max_positions.value_or(kUsualLength);
    const std::size_t length = asked.length.value_or(std::min(kUsualLength, positions));
    std::vector<std::vector<Cell>> values = {{{}, "length", count_cell(length)},
                                             {{}, "batch", count_cell(asked.batch)}};
    for (const SummaryPart& part : summary_parts(*subject, asked, length)) {
      Table shown;
      if (const Record* record = std::get_if<Record>(&part.content)) {
        document.head.set(part.name, *record);
        shown = record_table(part, *record);
        for (const auto& [name, value] : record->fields)
          if (const Cell* single = std::get_if<Cell>(&value.data))
            values.push_back({part.name, name, *single});
      } else {
        const Table& table = std::get<Table>(part.content);
        results.add_table(part.record, table);
        shown = part.name == "comparison" ? side_by_side(table) : table;
      }
      if (part.name == "architecture") document.head.set("length", length).set("batch", asked.batch);
      results.text.emplace_back(TextTable{part.title, std::move(shown)});
    }
    results.tables.push_back(
        make_table("summary", {kSummaryColumns.begin(), kSummaryColumns.end()}, std::move(values)));
  }
  if (asked.families) results.add_table("family", families_table());
  return results;
}

}  // namespace attnctl::analysis
