#include <string>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "checkpoint/source.hpp"
#include "cli/commands/info_parts.hpp"
#include "model/accounting/accounting.hpp"

namespace attnctl::cli {
namespace {

const char* name_of(NormKind kind) {
  switch (kind) {
    case NormKind::layer:
      return "layer";
    case NormKind::rms:
      return "rms";
    case NormKind::none:
      break;
  }
  return "none";
}

const char* name_of(NormPlace place) {
  switch (place) {
    case NormPlace::pre:
      return "pre";
    case NormPlace::post:
      return "post";
    case NormPlace::output:
      return "output";
    case NormPlace::both:
      return "both";
    case NormPlace::stream:
      return "stream";
    case NormPlace::none:
      break;
  }
  return "none";
}

std::string position_of(const ModelConfig& config) {
  if (config.layers.front().attention.rotary) return "rotary";
  switch (config.embedding.position) {
    case PositionKind::learned:
      return "learned";
    case PositionKind::sinusoidal:
    case PositionKind::sinusoidal_halves:
      return "sinusoidal";
    case PositionKind::none:
      break;
  }
  return "none";
}

const char* name_of(TensorRole role) {
  switch (role) {
    case TensorRole::parameter:
      return "parameter";
    case TensorRole::tied:
      return "tied";
    case TensorRole::buffer:
      return "buffer";
    case TensorRole::unused:
      break;
  }
  return "unused";
}

std::size_t values_of(const TensorInfo& tensor) {
  return checked_product(tensor.shape).value();
}

/// Returns the configured dropout rates. Inference does not apply them.
Record dropout_record(const Model& model) {
  Record dropout;
  for (const auto& [key, value] : model.source().config.items()) {
    if (value.is_number() && (key.find("drop") != std::string::npos)) dropout.set(key, value.get<double>());
  }
  return dropout;
}

}  // namespace

Record subject_record(const InfoSubject& subject) {
  if (subject.open) return model_record(subject.open->model);
  const std::uint64_t parameters = count_parameters(subject.config).all;
  Record record = config_record(subject.config, Value(), parameters);
  if (subject.preset != nullptr) {
    record.set("preset", subject.preset->name)
        .set("title", subject.preset->title)
        .set("attentions", subject.preset->attentions);
  }
  return record;
}

/// Returns how layers are built: the properties of the configuration other than sizes.
Record architecture_record(const InfoSubject& subject) {
  const ModelConfig& config = subject.config;
  const LayerConfig& layer = config.layers.front();
  Record record;
  record.set("vocabulary", config.embedding.vocabulary)
      .set("positions", config.max_positions ? Value(*config.max_positions) : Value())
      .set("position", position_of(config))
      .set("causal", layer.attention.causal)
      .set("norm", name_of(layer.norm.kind))
      .set("norm_place", name_of(layer.place))
      .set("mlp_width", layer.mlp.width)
      .set("mlp_gated", layer.mlp.gated)
      .set("output_head", config.head.present);
  if (const Model* model = subject.model()) {
    record.set("unused_tensors", model->unused_tensors()).set("dropout", dropout_record(*model));
  }
  return record;
}

Record stored_record(const Model& model) {
  const auto tensors = model.source().weights->tensors();
  const auto count = [&](auto counts) {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (counts(model.tensor_uses()[i].role)) sum += values_of(tensors[i]);
    }
    return sum;
  };
  Record record;
  record.set("all", count([](TensorRole) { return true; }));
  const std::pair<const char*, TensorRole> roles[] = {{"parameters", TensorRole::parameter},
                                                      {"tied", TensorRole::tied},
                                                      {"buffers", TensorRole::buffer},
                                                      {"unused", TensorRole::unused}};
  for (const auto& [name, wanted] : roles) {
    record.set(name, count([role = wanted](TensorRole each) { return each == role; }));
  }
  return record;
}

Table tensors_apart(const Model& model) {
  const auto tensors = model.source().weights->tensors();
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorUse& use = model.tensor_uses()[i];
    if (use.role == TensorRole::parameter) continue;
    rows.push_back({tensors[i].name, std::string(name_of(use.role)),
                    static_cast<std::int64_t>(values_of(tensors[i])),
                    use.role == TensorRole::tied ? Cell(tensors[use.copy_of].name) : Cell()});
  }
  return make_table("apart", {"name", "role", "values", "copy_of"}, std::move(rows));
}

}  // namespace attnctl::cli
