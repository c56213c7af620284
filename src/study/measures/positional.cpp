#include <array>
#include <string>
#include <utility>

#include "analysis/patterns/pattern_row.hpp"
#include "study/measures/measures.hpp"
#include "study/measures/per_panel.hpp"
#include "study/state/moments.hpp"

namespace attnctl {
namespace {

constexpr std::array kMetrics = {
    Metric{
        "positional.weight", "", "[0, 1]", "uniform: the mean of 1 / visible keys over the same rows",
        "for each offset o of key and query, -8..8: mean of a_i,i+o over the rows that may attend to key i+o",
        "Voita et al. 2019"},
    Metric{"positional.peaks", "", "[0, 1]", "1 / visible keys for random peaks",
           "share of all rows whose largest weight is at offset o (the first of equal ones)",
           "Voita et al. 2019: 0.9 at one offset makes a positional head"},
};

constexpr std::size_t kFarthest = largest_offset;  // largest offset in each direction

/// Sums for one offset of key and query.
struct OffsetSums {
  std::uint64_t rows = 0;  // rows for which the key at this offset is visible
  BlockSum weight, uniform;
};

struct HeadOffsets {
  std::uint64_t rows = 0;
  OffsetPeaks peaks;
  std::array<OffsetSums, offset_count> offsets;

  void merge(const HeadOffsets& other) {
    rows += other.rows;
    for (std::size_t i = 0; i < offset_count; ++i) {
      peaks.counts[i] += other.peaks.counts[i];
      offsets[i].rows += other.offsets[i].rows;
      offsets[i].weight.merge(other.offsets[i].weight);
      offsets[i].uniform.merge(other.offsets[i].uniform);
    }
  }
  void save(StateWriter& out) const {
    out.number(rows);
    for (std::size_t i = 0; i < offset_count; ++i) {
      out.number(peaks.counts[i]);
      out.number(offsets[i].rows);
      offsets[i].weight.save(out);
      offsets[i].uniform.save(out);
    }
  }
  void load(StateReader& in) {
    rows = in.number();
    for (std::size_t i = 0; i < offset_count; ++i) {
      peaks.counts[i] = in.number();
      offsets[i].rows = in.number();
      offsets[i].weight.load(in);
      offsets[i].uniform.load(in);
    }
  }

  /// Returns a sum divided by the number of rows of that offset.
  [[nodiscard]] Cell mean(std::size_t offset, const BlockSum OffsetSums::*sum) const {
    const OffsetSums& at = offsets[offset];
    return at.rows == 0 ? Cell() : real_cell((at.*sum).value() / static_cast<double>(at.rows));
  }
  [[nodiscard]] Cell peak_share(std::size_t offset) const {
    return rows == 0 ? Cell()
                     : real_cell(static_cast<double>(peaks.counts[offset]) / static_cast<double>(rows));
  }
};

std::int64_t offset_at(std::size_t place) {
  return static_cast<std::int64_t>(place) - largest_offset;
}

/// Number of rows and uniform baseline of each offset, for the rows of a panel.
struct OffsetNulls {
  std::array<std::uint64_t, offset_count> rows{};
  std::array<double, offset_count> uniform{};
};

OffsetNulls offset_nulls(const StudyPanel& panel) {
  OffsetNulls nulls;
  for (const PatternRow& row : panel.rows) {
    const double uniform = 1 / static_cast<double>(panel.visible.count(row.query));
    const KeyRange keys = keys_near(row, kFarthest);
    for (std::size_t key = keys.first; key < keys.last; ++key) {
      if (!panel.visible.shows(row.query, key)) continue;
      const std::size_t offset = key + kFarthest - row.query;
      ++nulls.rows[offset];
      nulls.uniform[offset] += uniform;
    }
  }
  return nulls;
}

class PositionalMeasure final : public PerHead<HeadOffsets> {
 public:
  explicit PositionalMeasure(const StudyShape& shape) : PerHead(shape, {}) {}

  void begin(const StudyBlock& /*block*/) override { nulls_.clear(); }
  void panel(const StudyPanel& panel) override;
  void finish(StudyResults& results) const override;

 private:
  [[nodiscard]] List records() const;
  [[nodiscard]] Table table() const;

  PerPanel<OffsetNulls> nulls_;
};

void PositionalMeasure::panel(const StudyPanel& panel) {
  HeadOffsets& state = states_[panel.head];
  state.rows += panel.rows.size();
  std::array<double, offset_count> weights{};
  for (const PatternRow& row : panel.rows) {
    state.peaks.add(row);
    const KeyRange keys = keys_near(row, kFarthest);
    double* const at = weights.data() + (keys.first + kFarthest - row.query);
    for (std::size_t i = 0; i < keys.size(); ++i) at[i] += static_cast<double>(row.weights[keys.first + i]);
  }
  const OffsetNulls& nulls = nulls_.of(panel, [&] { return offset_nulls(panel); });
  for (std::size_t i = 0; i < offset_count; ++i) {
    state.offsets[i].rows += nulls.rows[i];
    state.offsets[i].weight.add(weights[i]);
    state.offsets[i].uniform.add(nulls.uniform[i]);
  }
}

List PositionalMeasure::records() const {
  List items;
  for (std::size_t h = 0; h < states_.size(); ++h) {
    const HeadOffsets& state = states_[h];
    List offsets, rows, weights, uniforms, peaks;
    for (std::size_t i = 0; i < offset_count; ++i) {
      offsets.emplace_back(offset_at(i));
      rows.emplace_back(state.offsets[i].rows);
      weights.emplace_back(state.mean(i, &OffsetSums::weight));
      uniforms.emplace_back(state.mean(i, &OffsetSums::uniform));
      peaks.emplace_back(state.peak_share(i));
    }
    Record record;
    record.set("head", shape_.heads[h].name)
        .set("rows", state.rows)
        .set("offsets", std::move(offsets))
        .set("count", std::move(rows))
        .set("weight", std::move(weights))
        .set("uniform", std::move(uniforms))
        .set("peaks", std::move(peaks));
    items.emplace_back(std::move(record));
  }
  return items;
}

Table PositionalMeasure::table() const {
  std::vector<std::string> columns = StudyShape::head_columns();
  columns.insert(columns.end(), {"offset", "count", "weight", "uniform", "peaks"});
  std::vector<std::vector<Cell>> rows;
  for (std::size_t h = 0; h < states_.size(); ++h) {
    for (std::size_t i = 0; i < offset_count; ++i) {
      std::vector<Cell>& row = rows.emplace_back(shape_.head_cells(h));
      row.insert(row.end(), {offset_at(i), count_cell(states_[h].offsets[i].rows),
                             states_[h].mean(i, &OffsetSums::weight),
                             states_[h].mean(i, &OffsetSums::uniform), states_[h].peak_share(i)});
    }
  }
  return make_table("positional", std::move(columns), std::move(rows));
}

void PositionalMeasure::finish(StudyResults& results) const {
  std::vector<Cell> best;
  std::vector<Cell> shares;
  for (const HeadOffsets& state : states_) {
    const auto offset = state.peaks.best();
    best.push_back(offset ? Cell(std::int64_t{*offset}) : Cell());
    shares.push_back(offset ? state.peak_share(static_cast<std::size_t>(*offset + largest_offset))
                            : real_cell(state.rows > 0 ? std::optional(0.0) : std::nullopt));
  }
  results.head_fields.push_back(cell_field("best_offset", best));
  results.head_fields.push_back(cell_field("best_offset_share", shares));
  results.text.push_back(shape_.grid("Offset where most rows have their largest weight", best));
  results.text.push_back(
      shape_.grid("Share of rows that have it there (0.9 and more: a positional head)", shares));
  results.document.sections.push_back({"positional", "positional", records()});
  results.tables.push_back(table());
}

}  // namespace

std::span<const Metric> positional_metrics() {
  return kMetrics;
}

std::unique_ptr<Measure> make_positional_measure(const StudyShape& shape) {
  return std::make_unique<PositionalMeasure>(shape);
}

}  // namespace attnctl
