#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "model/accounting/accounting.hpp"

namespace attnctl {
namespace {

/// Formats ascending numbers as "0,1", "0-7" or "0,2-5".
std::string number_ranges(const std::vector<std::size_t>& numbers) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < numbers.size(); first = last) {
    while (last < numbers.size() && numbers[last] == numbers[first] + (last - first)) ++last;
    if (last - first == 2) last = first + 1;  // "0,1" reads better than "0-1"
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[first]);
    if (last - first > 1) text += fmt::format("-{}", numbers[last - 1]);
  }
  return text;
}

/// Statements about layers, ordered by first occurrence. Equal statements form one row.
class Statements {
 public:
  void add(std::string_view kind, std::size_t layer, const std::vector<std::size_t>& heads,
           std::string text) {
    const auto [found, is_new] = known_.emplace(std::pair(std::string(kind), text), rows_.size());
    if (is_new) rows_.push_back({std::string(kind), {}, number_ranges(heads), std::move(text)});
    rows_[found->second].layers.push_back(layer);
  }
  [[nodiscard]] Table table() const {
    std::vector<std::vector<Cell>> cells;
    for (const Row& row : rows_) {
      cells.push_back(
          {row.kind, number_ranges(row.layers), row.heads.empty() ? Cell() : Cell(row.heads), row.text});
    }
    return make_table("sharing", {"kind", "layers", "heads", "text"}, std::move(cells));
  }

 private:
  struct Row {
    std::string kind;
    std::vector<std::size_t> layers;
    std::string heads, text;
  };
  std::map<std::pair<std::string, std::string>, std::size_t> known_;
  std::vector<Row> rows_;
};

/// Returns groups of at least two heads by the key/value head or slice that they share.
std::map<std::size_t, std::vector<std::size_t>> groups_of(const AttentionConfig& attention) {
  std::map<std::size_t, std::vector<std::size_t>> groups;
  for (std::size_t head = 0; head < attention.heads; ++head) groups[attention.kv_head(head)].push_back(head);
  std::erase_if(groups, [](const auto& group) { return group.second.size() < 2; });
  return groups;
}

void add_layers(const ModelConfig& config, Statements& statements) {
  std::map<LayerConfig::Key, std::vector<std::size_t>> sharing;
  for (std::size_t i = 0; i < config.layers.size(); ++i) sharing[config.layers[i].stored()].push_back(i);
  for (const auto& [stored_as, layers] : sharing) {
    if (layers.size() < 2) continue;
    const std::string text = fmt::format("layers {} share all weights", number_ranges(layers));
    for (const std::size_t layer : layers) statements.add("layers", layer, {}, text);
  }
}

void add_heads(const AttentionConfig& attention, std::size_t layer, Statements& statements) {
  for (const auto& [slice, heads] : groups_of(attention)) {
    if (attention.head_slices.empty()) {
      statements.add("kv_head", layer, heads,
                     fmt::format("heads {} share {} (key/value head {})", number_ranges(heads),
                                 attention.value.weight ? "W_K and W_V" : "W_K", slice));
    } else {
      statements.add("tied_heads", layer, heads,
                     fmt::format("heads {} are tied to slice {} of {}", number_ranges(heads), slice,
                                 attention.value.weight ? "W_Q, W_K and W_V" : "W_Q and W_K"));
    }
  }
}

void add_factors(const AttentionConfig& attention, std::size_t layer, Statements& statements) {
  const std::pair<const char*, const LinearParts*> projections[] = {{"W_Q", &attention.query},
                                                                    {"W_K", &attention.key},
                                                                    {"W_V", &attention.value},
                                                                    {"W_O", &attention.output}};
  for (const auto& [name, parts] : projections) {
    if (!parts->weight || parts->rank == 0) continue;
    statements.add("factorised", layer, {}, fmt::format("{} factorised, rank {}", name, parts->rank));
  }
}

}  // namespace

Table sharing_table(const ModelConfig& config, const Model* model) {
  Statements statements;
  add_layers(config, statements);
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    const AttentionConfig& attention = config.layers[layer].attention;
    if (!attention.key.weight) {
      statements.add("query_key", layer, {}, "W_Q = W_K: there is no W_K, W_Q is used");
    } else if (model != nullptr && model->key_is_query(layer)) {
      statements.add("query_key", layer, {}, "W_Q = W_K: two tensors with the same values");
    }
    add_heads(attention, layer, statements);
    add_factors(attention, layer, statements);
  }
  return statements.table();
}

}  // namespace attnctl
