#include "cli/options/selection.hpp"

#include <numeric>

#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl::cli {

void add_attention_option(Command& command, SelectionOptions& options) {
  command.add("Selection",
              {{"--attention", &options.attention,
                "Replace the attention of the layers of --layers (default: all): " +
                    std::string(attention_kinds) + ", or axial over a grid of --embeddings [N, L, d]",
                "KIND"}});
}

AttentionChoice parse_attention_choice(const std::string& option, const std::string& kind) {
  if (kind == "axial") return {{}, true};
  const auto parsed = parse_attention_kind(kind);
  if (!parsed) {
    fail(Status::usage, "{}: unsupported \"{}\"; known: {}, axial", option, escaped(kind), attention_kinds);
  }
  return {*parsed, false};
}

Model with_attention_option(const Model& model, const SelectionOptions& options) {
  if (options.attention.empty()) return model;
  const AttentionChoice choice = parse_attention_choice("--attention", options.attention);
  if (choice.axial) return model;
  const std::size_t count = model.config().layers.size();
  std::vector<std::size_t> layers(count);
  std::iota(layers.begin(), layers.end(), std::size_t{0});
  if (!options.layers.empty()) layers = parse_ranges("--layers", options.layers, count);
  return model.with_attention(choice.kind, layers);
}

std::optional<AxialGrid> axial_grid(const SelectionOptions& options, const InputOptions& inputs,
                                    const Model& model, Batch& batch) {
  if (options.attention != "axial") return std::nullopt;
  if (inputs.items.size() != 1 || inputs.items.front().kind != InputItem::Kind::embeddings) {
    fail(Status::usage, "--attention axial takes one grid, --embeddings X.npy of shape [N, L, d]");
  }
  return make_axial(model, batch);
}

}  // namespace attnctl::cli
