#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/head_axes.hpp"
#include "analysis/patterns/capture.hpp"
#include "analysis/similarity/subspace_similarity.hpp"
#include "analysis/weights/circuit.hpp"
#include "base/matrix_view.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "inspect/catalogue.hpp"
#include "model/model.hpp"
#include "results/results.hpp"

// Conversion of heads, tokens and numbers to the cells, values and arrays of results.
namespace attnctl::inspect {

using analysis::add_cells;
using analysis::row_of;

/// A table whose rows are in memory, while it is made.
struct TableRows {
  std::string name;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows = {};

  /// Adds a row with the cells of these parts, as row_of().
  template <typename... Parts>
  std::vector<Cell>& add(const Parts&... parts) {
    return rows.emplace_back(row_of(parts...));
  }
  /// Adds a row for each ordered pair of the heads of `pairs`, also of a head with itself: `first`, the cells
  /// of analysis::pair_cells(), then cells_of(a, b).
  template <typename Pairs, typename CellsOf>
  void add_pairs(const model::ModelConfig& config, std::string_view first, const Pairs& pairs,
                 const CellsOf& cells_of) {
    for (std::size_t a = 0; a < pairs.heads.size(); ++a) {
      for (std::size_t b = 0; b < pairs.heads.size(); ++b)
        add(first, analysis::pair_cells(config, pairs.heads[a], pairs.heads[b]), cells_of(a, b));
    }
  }
  [[nodiscard]] Table table() { return make_table(std::move(name), std::move(columns), std::move(rows)); }
};

/// Returns a record with the field `key`, then component, layer, head and name.
[[nodiscard]] Record head_record(const char* key, std::string_view text, const model::ModelConfig& config,
                                 model::HeadId head);

/// Returns the columns of a table of heads for text: `name`, with the title "head", and the others.
[[nodiscard]] Table text_columns(const Table& table, const std::vector<std::string>& columns);

/// Returns item `index` of an array. An item is a subarray of the last `axes` axes. All earlier axes are
/// flattened into one, and `index` is an index into this axis. The item shares memory with the array.
[[nodiscard]] Tensor item_of(const Tensor& array, std::size_t index, std::size_t axes);
/// Returns the items `first` to `first + count - 1`, [count, last axes]. See item_of().
[[nodiscard]] Tensor items_of(const Tensor& array, std::size_t first, std::size_t count, std::size_t axes);

/// Return the values as a float32 array; all output formats support this type. kUndefined is preserved.
[[nodiscard]] Tensor float_array(Shape shape, std::span<const double> values);
[[nodiscard]] Tensor float_array(const OwnedMatrix<double>& matrix);
template <typename T>
[[nodiscard]] Tensor tensor_of(const OwnedMatrix<T>& matrix) {
  return make_tensor({matrix.rows(), matrix.cols()},
                     std::vector<T>(matrix.values().begin(), matrix.values().end()));
}

/// Returns the numbers of one column of a table as a float32 array, starting at row `first_row`.
[[nodiscard]] Tensor column_array(const Table& table, std::string_view column, Shape shape,
                                  std::size_t first_row = 0);

/// A float matrix whose elements are rows of a table.
struct LongBlock {
  /// Fills the cells of element (row, column) between the first cells and the value.
  using Middle = std::function<void(std::size_t row, std::size_t column, std::span<Cell> cells)>;

  std::vector<Cell> first;  // the first cells of each row of the table
  Tensor values;            // [rows, columns]
  Middle middle = {};       // null: the number of the row and the number of the column
};

/// Returns a table with a row for each element of the blocks. The last cell is the element. Rows are computed
/// while the table is written, because there can be millions of rows.
[[nodiscard]] Table long_table(std::string name, std::vector<Column> columns, std::vector<LongBlock> blocks);

/// Returns the columns query, key, query_token and key_token of LongBlock. The spans must outlive the block.
/// Row r is query from[r], or query r if `from` is empty.
[[nodiscard]] LongBlock::Middle query_and_key(std::span<const std::string> query_tokens,
                                              std::span<const std::string> key_tokens,
                                              std::vector<std::size_t> from = {});

/// Returns the name of a captured array in --include, which is also that of its table.
[[nodiscard]] inline std::string_view include_name(analysis::Captured what) {
  return what == analysis::Captured::pattern ? "patterns" : name_of(what);
}

[[nodiscard]] std::vector<std::string> names_of(const model::ModelConfig& config,
                                                std::span<const model::HeadId> heads);

/// Returns the prefix of array names: "enc_", "dec_" or "cross_", or "" if the model has no components.
[[nodiscard]] std::string prefix_of(model::Component component);

/// Returns the label of each token of a sequence (see Vocabulary::label). The label of a position without a
/// token is the number of the position.
[[nodiscard]] std::vector<std::string> token_labels(const AnalysisInput& input,
                                                    const input::Sequence& sequence);
/// Returns the positions in each sequence that `name`, a word, token or position of `option` (--from, --to or
/// --rollout-from), names: see input::find_word. If it is in no sequence, searches input::find_in_text. Adds
/// a warning if it is missing in some sequence, or only a part of a token.
[[nodiscard]] std::vector<std::vector<std::size_t>> find_in_inputs(
    const AnalysisInput& input, std::string_view option, const std::string& name,
    const std::vector<const input::Sequence*>& sequences);
/// Returns the token at a position, or an undefined cell if the position has no token.
[[nodiscard]] Cell token_cell(std::span<const std::string> tokens, std::size_t position);

/// Returns a table with one row per selected head in every form except pictures. Adds the columns that
/// identify the head before those of `table`. Each column without integers also becomes the array
/// NAME_COLUMN, with the axes of HeadAxes. `title` is the title in text.
[[nodiscard]] Results results_of_heads(const AnalysisInput& input, const std::string& title,
                                       const TableRows& table);

/// Returns the groups of heads that are compared: the selected heads of each layer, or with --across-layers
/// one group with all of them.
[[nodiscard]] std::vector<std::span<const model::HeadId>> compared_heads(const AnalysisInput& input);
/// Returns whether all selected layers have these projections.
[[nodiscard]] bool have_projections(const AnalysisInput& input,
                                    std::initializer_list<analysis::Projection> projections);

/// Values for all pairs of some heads, `depth` values per pair.
struct HeadPairs {
  std::optional<std::size_t> layer;  // nullopt: the heads are in several layers
  std::span<const model::HeadId> heads;
  std::span<const double> values;  // [heads, heads, depth]
  std::size_t depth = 1;
};

/// Returns the values of all pairs as one array. Its shape is [layers, h, h, depth] if each item of `pairs`
/// has the heads of one layer and the same head numbers are selected in each layer. Otherwise it is
/// [selected, selected, depth], with NaN for pairs that are in no item. The last axis has the largest depth
/// of all items; if `deep` is false, the last axis is missing.
[[nodiscard]] Tensor pairs_array(const forward::Selection& selection, std::span<const HeadPairs> pairs,
                                 bool deep);

[[nodiscard]] analysis::HeadMatrix reordered(const analysis::HeadMatrix& matrix,
                                             std::vector<model::HeadId> order);

/// Returns a heatmap with heads on both axes. The labels are "Head i" if HeadMatrix::layer is set, and head
/// names such as "0.1" otherwise. The diagonal has no values, so that a scale fits the pairs of different
/// heads. With HeadOrder::cluster, the heads are in the order of HeadMap, so that similar heads are adjacent,
/// and the heatmap has the tree of the clusters and, if the heads are in several layers, the layers as
/// groups.
[[nodiscard]] Heatmap head_heatmap(const AnalysisInput& input, const std::string& title,
                                   const analysis::HeadMatrix& given);

/// Returns a name as written in formulas: "W_Q" for "w_q", "QK" for "qk".
[[nodiscard]] std::string symbol_of(std::string_view name);

}  // namespace attnctl::inspect
