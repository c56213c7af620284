#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/similarity/subspace_similarity.hpp"
#include "base/matrix_view.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"
#include "results/results.hpp"
#include "tokenizer/vocabulary.hpp"

// Heads, tokens and numbers as the cells, values and arrays of results.
namespace attnctl::inspect {

/// Returns item `index` of an array. An item consists of the last `axes` axes; the other axes are flattened
/// into `index`. The item shares the values of the array.
[[nodiscard]] Tensor item_of(const Tensor& array, std::size_t index, std::size_t axes);

/// Return an array in float32, the type that all formats support. kUndefined is preserved.
[[nodiscard]] Tensor float_array(Shape shape, std::span<const double> values);
[[nodiscard]] Tensor float_array(const OwnedMatrix<double>& matrix);

/// Returns an array of the floats in a column of a table, from `first_row` on. Undefined cells become
/// kUndefined.
[[nodiscard]] Tensor column_array(const Table& table, std::string_view column, Shape shape,
                                  std::size_t first_row = 0);

/// Returns the names of heads: ["0.0", "0.1", ...], or ["enc.0.0", ...] for a model with components.
[[nodiscard]] List names_of(const ModelConfig& config, std::span<const HeadId> heads);

/// Returns the number of a layer in its component, or an undefined cell if `layer` is nullopt.
[[nodiscard]] Cell number_cell(const ModelConfig& config, const std::optional<std::size_t>& layer);
/// Returns the prefix of the array names of a component: "enc_", "dec_" or "cross_"; empty for a model with
/// one stack.
[[nodiscard]] std::string prefix_of(Component component);

/// Returns the plain text of the tokens of a sequence, or positions if it has none.
[[nodiscard]] std::vector<std::string> token_labels(const Vocabulary& vocabulary, const Sequence& sequence);
[[nodiscard]] Cell token_cell(std::span<const std::string> tokens, std::size_t position);

template <typename T>
[[nodiscard]] Value or_null(const std::optional<T>& value) {
  return value ? Value(*value) : Value();
}

/// Return a cell of a table: undefined if the number is missing or kUndefined. Reals are rounded to
/// float32, as in every format.
[[nodiscard]] Cell cell_of(std::size_t number);
[[nodiscard]] Cell cell_of(double number);
template <typename T>
[[nodiscard]] Cell cell_of(const std::optional<T>& number) {
  return number ? cell_of(*number) : Cell();
}

/// A table with one row per selected head, after the columns that identify the head.
struct HeadTable {
  struct Column {
    std::string name;
    std::vector<Cell> cells;  // [selected heads]
  };
  std::string name;   // of the section, the CSV table, and the arrays NAME_COLUMN
  std::string title;  // of the table in text
  std::vector<Column> columns;
};

/// Returns the table in all forms but pictures. Columns of real numbers become arrays [layers, heads].
[[nodiscard]] Results results_of_heads(const ModelConfig& config, const Selection& selection,
                                       const HeadTable& table);

/// Numbers of all pairs of some heads.
struct HeadPairs {
  std::optional<std::size_t> layer;  // nullopt: heads of several layers
  std::span<const HeadId> heads;
  std::span<const double> values;  // [heads, heads, depth]
  std::size_t depth = 1;
};

/// Returns [layers, h, h, depth] if heads are compared within layers and all layers have the same heads.
/// Otherwise returns [selected, selected, depth] with NaN for pairs that were not compared. The last axis has
/// the largest depth of all pairs; without `deep`, it is left out.
[[nodiscard]] Tensor pairs_array(const Selection& selection, std::span<const HeadPairs> pairs, bool deep);

/// Returns the matrix with its heads in another order.
[[nodiscard]] HeadMatrix reordered(const HeadMatrix& matrix, std::vector<HeadId> order);
/// Reorders the heads by the dendrogram of average linkage, so that similar heads are adjacent.
[[nodiscard]] HeadMatrix in_cluster_order(const HeadMatrix& matrix);

/// Returns a heatmap with heads on both axes, labelled "Head i" within a layer and "L.H" across layers. With
/// `clustered`, the heads are in cluster order.
[[nodiscard]] Heatmap head_heatmap(const ModelConfig& config, const std::string& title,
                                   const HeadMatrix& given, bool clustered);

/// Returns a name in the notation of formulas: "w_q" as W_Q, "qk" as QK.
[[nodiscard]] std::string symbol_of(std::string_view name);

}  // namespace attnctl::inspect
