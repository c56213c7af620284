#include "inspect/open_model.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "forward/block.hpp"

namespace attnctl::inspect {
namespace {

struct ComponentName {
  std::string_view option, prefix;
  model::Component component;
};
constexpr std::array kComponents = {ComponentName{"encoder", "enc", model::Component::encoder},
                                    ComponentName{"decoder", "dec", model::Component::decoder},
                                    ComponentName{"cross", "cross", model::Component::cross}};

void require_target(bool targets, model::Component component, const std::string& option) {
  if (targets || !forward::needs_target(component)) return;
  fail(
      Status::usage,
      "{}: decoder and cross-attention heads need a target: give --target-ids or --target-text, or a file of "
      "objects with a \"target\" (study and plan do not read targets)",
      option);
}

/// Returns the components that --component selects. If the option is not given, returns all components, or
/// only the encoder if `targets` is false. Component::none for a model that is not an encoder-decoder.
std::set<model::Component> select_components(const HeadChoice& choice, const model::ModelConfig& config,
                                             bool targets) {
  if (!config.decoder) {
    if (!choice.component.empty())
      fail(Status::usage, "--component: the model is not an encoder-decoder model, so it has no components");
    return {model::Component::none};
  }
  std::set<model::Component> picked;
  if (choice.component.empty()) {
    for (const ComponentName& row : kComponents) {
      if (targets || !forward::needs_target(row.component)) picked.insert(row.component);
    }
    return picked;
  }
  for (const std::string_view word : split(choice.component, ',')) {
    const auto* const row = std::ranges::find(kComponents, word, &ComponentName::option);
    if (row == kComponents.end())
      fail(Status::usage, "--component: got \"{}\"{}, need encoder, decoder or cross", escaped(word),
           did_you_mean(word, kComponents, &ComponentName::option));
    require_target(targets, row->component, "--component");
    picked.insert(row->component);
  }
  return picked;
}

/// Parses "0.1", "0:1" or "L0H1". The layer of the result is counted within its component.
std::optional<model::HeadId> parse_layer_and_head(std::string_view name) {
  const bool letters = name.starts_with('L') || name.starts_with('l');
  if (letters) name.remove_prefix(1);
  const std::size_t end = name.find_first_of(letters ? "Hh" : ".:");
  if (end == std::string_view::npos) return std::nullopt;
  const auto layer = parse_number(name.substr(0, end));
  const auto head = parse_number(name.substr(end + 1));
  if (!layer || !head) return std::nullopt;
  return model::HeadId{*layer, *head};
}

model::HeadId parse_head(std::string_view word, const model::ModelConfig& config, bool targets,
                         const std::string& option) {
  std::string_view name = word;
  model::Component component = model::Component::none;
  if (config.decoder) {
    const std::string_view prefix = split(word, '.').front();
    const auto* const row = std::ranges::find(kComponents, prefix, &ComponentName::prefix);
    if (row == kComponents.end()) {
      fail(Status::usage, "{}: got \"{}\", need COMPONENT.LAYER.HEAD, such as enc.0.1, dec.0.1 or cross.0.1",
           option, escaped(word));
    }
    component = row->component;
    require_target(targets, component, option);
    name.remove_prefix(std::min(prefix.size() + 1, name.size()));
  }
  const auto parsed = parse_layer_and_head(name);
  if (!parsed) {
    fail(Status::usage, "{}: got \"{}\", need {}LAYER.HEAD, such as {}{}", option, escaped(word),
         config.decoder ? "COMPONENT." : "", config.decoder ? "enc.0.1 or cross.2.3" : "0.1 or 2.3",
         parse_number(name) ? fmt::format("; --layers {} selects all heads of a layer", name) : "");
  }
  const auto layer = std::ranges::find_if(config.layers, [&](const model::LayerConfig& each) {
    return each.component == component && each.number == parsed->layer;
  });
  if (layer == config.layers.end()) {
    const std::size_t layers = config.layers_of(component);
    fail(Status::usage, "{}: got {}: the model has {} (0 to {})", option, escaped(word),
         counted(layers, fmt::format("{}{}layer", name_of(component), config.decoder ? " " : "")),
         layers - 1);
  }
  const auto index = static_cast<std::size_t>(layer - config.layers.begin());
  const std::size_t count = layer->attention.heads;
  if (parsed->head >= count) {
    fail(Status::usage, "{}: got {}: layer {} has {} (0 to {})", option, escaped(word),
         model::layer_name(config, index), counted(count, "head"), count - 1);
  }
  return {index, parsed->head};
}

/// Parses a list of layers less than `count`, such as 3 or L3, and ranges of them. Returns them in ascending
/// order, each once.
std::vector<std::size_t> parse_ranges(const std::string& option, const std::string& list, std::size_t count) {
  std::set<std::size_t> numbers;
  for (const std::string_view word : split(list, ',')) {
    std::vector<std::string_view> ends = split(word, '-');
    for (std::string_view& end : ends)
      if (end.starts_with('L') || end.starts_with('l')) end.remove_prefix(1);
    const auto first = parse_number(ends.front());
    const auto last = parse_number(ends.back());
    if (ends.size() > 2 || !first || !last || *first > *last) {
      fail(Status::usage, "{}: got \"{}\", need {}", option, escaped(word),
           option == "--show" ? "a head such as 3.1, or a layer such as 3"
                              : "numbers and ranges such as 0,3-5");
    }
    if (*last >= count) {
      fail(Status::usage, "{}: got {}, the layers are 0 to {}", option, *last, count - 1);
    }
    for (std::size_t i = *first; i <= *last; ++i) numbers.insert(i);
  }
  return {numbers.begin(), numbers.end()};
}

}  // namespace

OpenModel open_model(const std::string& model, const std::optional<std::string>& config, Warnings& warnings,
                     const std::optional<std::string>& adapter) {
  checkpoint::ModelSource source = checkpoint::open_model_source(model, config, warnings);
  if (adapter) checkpoint::apply_adapter(*adapter, source, warnings);
  tokenizer::TokenizerOrigin tokenizer{source.directory, source.weights->tokenizer};
  model::Model bound = model::Model::bind(std::move(source), warnings);
  tokenizer::Vocabulary vocabulary;
  if (!bound.config().vocabulary.empty()) {
    vocabulary = tokenizer::Vocabulary(bound.config().vocabulary, {});
  } else if (!tokenizer.empty()) {
    vocabulary = tokenizer::read_vocabulary(tokenizer);
  }
  // The configuration can list special tokens that the tokenizer files do not mark as special.
  for (const std::int64_t id : bound.config().special_ids) vocabulary.mark_special(id);
  const std::optional<std::int64_t> start =
      bound.config().decoder ? bound.config().decoder->start_token : std::nullopt;
  return {std::move(bound), std::move(vocabulary), input::TextEncoder(std::move(tokenizer), model, start)};
}

tokenizer::TokenizerOrigin tokenizer_origin(const std::string& model) {
  tokenizer::TokenizerOrigin origin{checkpoint::model_directory(model), nullptr, model};
  if (std::filesystem::is_regular_file(model)) origin.section = checkpoint::read_tokenizer_section(model);
  return origin;
}

std::vector<std::size_t> select_layers(const HeadChoice& choice, const model::ModelConfig& config,
                                       bool targets) {
  const std::set<model::Component> components = select_components(choice, config, targets);
  std::size_t count = 0;
  const auto picked = [&](const model::LayerConfig& layer) { return components.contains(layer.component); };
  for (const model::LayerConfig& layer : config.layers) {
    if (picked(layer)) count = std::max(count, layer.number + 1);
  }
  std::optional<std::vector<std::size_t>> numbers;
  if (!choice.layers.empty())
    numbers = parse_ranges(choice.option.empty() ? "--layers" : choice.option, choice.layers, count);
  std::vector<std::size_t> layers;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const model::LayerConfig& layer = config.layers[i];
    if (picked(layer) && (!numbers || std::ranges::binary_search(*numbers, layer.number)))
      layers.push_back(i);
  }
  return layers;
}

forward::Selection select_heads(const HeadChoice& choice, const model::ModelConfig& config, bool targets) {
  const std::vector<std::size_t> layers = select_layers(choice, config, targets);
  std::set<model::HeadId> heads;
  if (choice.heads.empty()) {
    for (const std::size_t layer : layers) {
      for (std::size_t h = 0; h < config.layers[layer].attention.heads; ++h) heads.insert({layer, h});
    }
  } else {
    for (const std::string_view word : split(choice.heads, ',')) {
      const model::HeadId head =
          parse_head(word, config, targets, choice.option.empty() ? "--heads" : choice.option);
      if (std::ranges::binary_search(layers, head.layer)) heads.insert(head);
    }
  }
  if (heads.empty())
    fail(Status::usage, "no head of the model is selected by --heads, --layers and --component together");
  return {.heads = {heads.begin(), heads.end()}};
}

}  // namespace attnctl::inspect
