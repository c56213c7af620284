#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/numbers.hpp"
#include "forward/run.hpp"
#include "model/config/config.hpp"
#include "model/model.hpp"
#include "results/results.hpp"

namespace attnctl::analysis {

/// Returns the index of a head in an ascending list of heads, or nullopt if it is missing.
[[nodiscard]] inline std::optional<std::size_t> head_index(std::span<const model::HeadId> heads,
                                                           model::HeadId head) {
  const auto found = std::lower_bound(heads.begin(), heads.end(), head);
  if (found == heads.end() || *found != head) return std::nullopt;
  return static_cast<std::size_t>(found - heads.begin());
}

/// Maps the selected heads to the first axes of an array. The axes are [layers, heads] if the same head
/// numbers are selected in every layer that has a selected head; otherwise, there is one axis [selected]. In
/// both cases, the flat index of a head is its index in the selection.
class HeadAxes {
 public:
  /// @param heads  selected heads in ascending order
  explicit HeadAxes(std::span<const model::HeadId> heads);

  /// Returns the axes of the key/value heads that the selected heads use.
  [[nodiscard]] static HeadAxes of_kv_heads(std::span<const model::HeadId> heads,
                                            const model::ModelConfig& config);

  [[nodiscard]] bool regular() const { return regular_; }
  [[nodiscard]] const std::vector<model::HeadId>& heads() const { return heads_; }
  [[nodiscard]] const std::vector<std::size_t>& layers() const { return layers_; }
  /// Returns the shape of an array: the axes of the heads, followed by `rest`.
  [[nodiscard]] Shape shape(const Shape& rest = {}) const;
  /// Returns the flat index of a head, or nullopt if the head is not selected.
  [[nodiscard]] std::optional<std::size_t> place(model::HeadId head) const {
    return head_index(heads_, head);
  }

 private:
  std::vector<model::HeadId> heads_;
  std::vector<std::size_t> layers_;
  bool regular_ = true;
};

/// Returns the component of a layer as a cell: "enc", "dec" or "cross". The cell is undefined if the model
/// has no components or if `layer` is nullopt.
[[nodiscard]] Cell component_cell(const model::ModelConfig& config, const std::optional<std::size_t>& layer);

/// Return a number as a cell, which is undefined for nullopt and kUndefined. Rounds doubles to float32.
[[nodiscard]] inline Cell cell_of(std::size_t number) {
  return static_cast<std::int64_t>(number);
}
[[nodiscard]] inline Cell cell_of(double number) {
  return is_undefined(number) ? Cell() : Cell(static_cast<float>(number));
}
template <typename T>
[[nodiscard]] Cell cell_of(const std::optional<T>& number) {
  return number ? cell_of(*number) : Cell();
}

/// Adds a text, the name_of() of an enumerator, a number (as in cell_of), another cell, or each
/// element of a range of these, to a row of a table.
template <typename Part>
void add_cells(std::vector<Cell>& row, const Part& part) {
  if constexpr (std::convertible_to<Part, std::string_view>) {
    row.emplace_back(std::string(part));
  } else if constexpr (std::ranges::range<Part>) {
    for (const auto& each : part) add_cells(row, each);
  } else if constexpr (requires { cell_of(part); }) {
    row.push_back(cell_of(part));
  } else if constexpr (requires { name_of(part); }) {
    row.emplace_back(std::string(name_of(part)));
  } else {
    row.emplace_back(part);
  }
}

/// Returns a row with the cells of these parts, in order.
template <typename... Parts>
[[nodiscard]] std::vector<Cell> row_of(const Parts&... parts) {
  std::vector<Cell> row;
  (add_cells(row, parts), ...);
  return row;
}

/// Returns the index of a layer within its component, or an undefined cell if `layer` is nullopt.
[[nodiscard]] inline Cell number_cell(const model::ModelConfig& config, std::optional<std::size_t> layer) {
  return layer ? cell_of(config.layers.at(*layer).number) : Cell();
}

/// Return the cells of the columns component, layer, head and name, and of the columns component, layer_a,
/// head_a, name_a, layer_b, head_b and name_b.
[[nodiscard]] std::array<Cell, 4> head_cells(const model::ModelConfig& config, model::HeadId head);
[[nodiscard]] std::array<Cell, 7> pair_cells(const model::ModelConfig& config, model::HeadId a,
                                             model::HeadId b);

/// Calls visit(group) for each run (a span) of adjacent items whose keys, std::invoke(key, item), are equal.
template <typename Item, typename Key, typename Visit>
void for_each_group(const std::vector<Item>& items, Key key, Visit visit) {
  for (auto first = items.begin(); first != items.end();) {
    const auto last = std::find_if(first, items.end(), [&](const Item& each) {
      return std::invoke(key, each) != std::invoke(key, *first);
    });
    visit(std::span<const Item>(first, last));
    first = last;
  }
}

/// The selected heads of one component, which is `none` for a model with a single stack of layers.
struct ComponentHeads {
  model::Component component = model::Component::none;
  forward::Selection selection;
};
[[nodiscard]] std::vector<ComponentHeads> split_by_component(const forward::Selection& selection,
                                                             const model::ModelConfig& config);

/// Returns the index, within its layer, of the key/value head that a query head uses.
[[nodiscard]] inline std::size_t kv_head_of(const model::ModelConfig& config, model::HeadId head) {
  return config.layers.at(head.layer).attention.kv_head(head.head);
}

}  // namespace attnctl::analysis
