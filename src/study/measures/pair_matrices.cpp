#include "study/measures/pair_matrices.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "analysis/similarity/head_pairs.hpp"

namespace attnctl {
namespace {

/// Pairs of distinct heads, in the order (0, 1), (0, 2), ..., (1, 2), ...
class UnlikePairs {
 public:
  explicit UnlikePairs(std::size_t heads) : heads_(heads) {}

  [[nodiscard]] std::size_t size() const { return heads_ * (heads_ - 1) / 2; }
  [[nodiscard]] std::pair<std::size_t, std::size_t> operator[](std::size_t index) const {
    std::size_t low = 0;  // the last head whose first pair is at or before `index`
    for (std::size_t high = heads_ - 1; high - low > 1;) {
      const std::size_t middle = (low + high) / 2;
      (begin(middle) <= index ? low : high) = middle;
    }
    return {low, low + 1 + (index - begin(low))};
  }

 private:
  [[nodiscard]] std::size_t begin(std::size_t head) const { return pair_index(heads_, head, head) - head; }
  std::size_t heads_;
};

/// Returns a table with one row per measure and pair. The rows are generated when they are written, because
/// there may be millions.
Table pair_table(const StudyShape& shape, std::vector<PairMatrix> matrices) {
  std::vector<std::string> columns = {"measure"};
  for (const char* const side : {"_a", "_b"}) {
    for (const std::string& column : StudyShape::head_columns()) columns.push_back(column + side);
  }
  columns.emplace_back("value");
  const UnlikePairs pairs(shape.heads.size());
  const std::size_t rows = matrices.size() * pairs.size();
  const auto shared = std::make_shared<const std::vector<PairMatrix>>(std::move(matrices));
  const auto fill = [&shape, pairs, shared](std::size_t index, std::span<Cell> cells) {
    const PairMatrix& matrix = shared->at(index / pairs.size());
    const auto [a, b] = pairs[index % pairs.size()];
    auto cell = cells.begin();
    *cell++ = std::string(matrix.name);
    for (const std::size_t head : {a, b}) cell = std::ranges::move(shape.head_cells(head), cell).out;
    *cell = real_cell(matrix.values[a * shape.heads.size() + b]);
  };
  return {"pairs", {columns.begin(), columns.end()}, rows, fill};
}

/// Returns the most similar and the least similar pairs of each measure.
Table extremes_table(const StudyShape& shape, const std::vector<PairMatrix>& matrices) {
  constexpr std::size_t most = 3;
  const std::size_t heads = shape.heads.size();
  const UnlikePairs unlike(heads);
  struct Pair {
    std::size_t a, b;
    float value;
  };
  std::vector<std::vector<Cell>> rows;
  for (const PairMatrix& matrix : matrices) {
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < unlike.size(); ++i) {
      const auto [a, b] = unlike[i];
      const float value = matrix.values[a * heads + b];
      if (std::isfinite(value)) pairs.push_back({a, b, value});
    }
    const auto add = [&](const char* which, bool low) {
      const std::size_t count = std::min(most, pairs.size());
      std::ranges::stable_sort(
          pairs, [&](const Pair& x, const Pair& y) { return low ? x.value < y.value : x.value > y.value; });
      for (std::size_t i = 0; i < count; ++i)
        rows.push_back({std::string(matrix.name), which, shape.heads[pairs[i].a].name,
                        shape.heads[pairs[i].b].name, pairs[i].value});
    };
    add("most alike", matrix.low_is_alike);
    add("least alike", !matrix.low_is_alike);
  }
  return make_table("pairs", {"measure", "which", "head", "and", "value"}, std::move(rows));
}

}  // namespace

void add_pair_matrices(StudyResults& results, const StudyShape& shape, std::vector<PairMatrix> matrices) {
  const std::size_t count = shape.heads.size();
  List names;
  for (const StudyHead& head : shape.heads) names.emplace_back(head.name);
  List items;
  for (const PairMatrix& matrix : matrices) {
    Record record;
    record.set("measure", matrix.name)
        .set("heads", names)
        .set("rows", matrix.rows)
        .set("values", make_array({count, count}, matrix.values));
    items.emplace_back(std::move(record));
  }
  results.document.sections.push_back({"pairs", "pairs", std::move(items)});
  if (count > 1) results.text.emplace_back(TextTable{"Pairs of heads", extremes_table(shape, matrices)});
  results.tables.push_back(pair_table(shape, std::move(matrices)));
}

}  // namespace attnctl
