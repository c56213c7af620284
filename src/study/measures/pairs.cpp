#include <numbers>

#include "analysis/similarity/head_pairs.hpp"
#include "base/memory.hpp"
#include "base/numbers.hpp"
#include "study/measure.hpp"

// The measure `pairs`: the similarity of all pairs of heads.
namespace attnctl::study {
namespace {

constexpr auto kPairDefinitions = std::to_array<Definition>({
    {"pairs.js_divergence", "nats", "[0, ln 2]", "",
     "mean over rows (in a large block, a sample of rows) of the Jensen-Shannon divergence of the two heads' "
     "rows, H((p + q) / 2) - (H(p) + H(q)) / 2",
     "Clark et al. 2019, section 6; Lin 1991"},
    {"pairs.frobenius_cosine", "", "[0, 1]", "",
     "cosine of the two heads' patterns: the sum of the products of their weights, divided by the root of "
     "the product of their sums of squares",
     "cosine of the patterns, the rows of js_divergence as one matrix"},
    {"pairs.cka", "", "[-1, 1]; below 0 only by chance", "0 for independent outputs",
     "linear CKA of the outputs z, HSIC(a, b) / sqrt(HSIC(a, a) HSIC(b, b)), with unbiased estimates of HSIC "
     "from a random sample of rows of the whole corpus",
     "Kornblith et al. 2019; Song et al. 2012"},
    {"measure", "", "", "", "js_divergence, frobenius_cosine or cka"},
    {"pairs.value", "", "", "", "value of this measure for the two heads"},
});

constexpr std::size_t kMaxHeads = 1024;  // half a million pairs, whose sums take 17 MB in the state
constexpr std::size_t kPatternBytes = std::size_t{48} << 20;  // largest size of a block's kept patterns
constexpr std::size_t kOutputBytes = std::size_t{16} << 20;   // largest size of the sampled output rows

struct PairSums {
  BlockSum divergence, product;

  auto parts() { return std::tie(divergence, product); }
};

/// The values of one measure for all pairs of heads.
struct PairMatrix {
  const char* name;
  bool low_is_alike;
  std::uint64_t rows;
  std::vector<float> values;  // [heads, heads]; NaN: undefined
};

/// Pairs of distinct heads, in the order (0, 1), (0, 2), ..., (1, 2), ...
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

Pairs distinct_pairs(std::size_t heads) {
  Pairs pairs;
  pairs.reserve(heads * (heads - 1) / 2);
  for (std::size_t a = 0; a < heads; ++a) {
    for (std::size_t b = a + 1; b < heads; ++b) pairs.emplace_back(a, b);
  }
  return pairs;
}

/// Returns a table with one row per measure and pair. The rows are generated when they are written, because a
/// large model can have more than a million rows.
Table pair_table(const StudyShape& shape, std::vector<PairMatrix> matrices) {
  std::vector<Column> columns = {"measure", "component", "layer_a", "head_a", "name_a",
                                 "layer_b", "head_b",    "name_b",  "value"};
  const auto pairs = std::make_shared<const Pairs>(distinct_pairs(shape.heads.size()));
  const std::size_t rows = matrices.size() * pairs->size();
  const auto shared = std::make_shared<const std::vector<PairMatrix>>(std::move(matrices));
  const auto fill = [&shape, pairs, shared](std::size_t index, std::span<Cell> cells) {
    const PairMatrix& matrix = shared->at(index / pairs->size());
    const auto [a, b] = (*pairs)[index % pairs->size()];
    auto cell = cells.begin();
    *cell++ = std::string(matrix.name);
    *cell++ = shape.heads[a].component;
    for (const std::size_t head : {a, b}) {
      const auto of_head = shape.head_cells(head);
      cell = std::copy(of_head.begin() + 1, of_head.end(), cell);  // without the component
    }
    *cell = real_cell(matrix.values[a * shape.heads.size() + b]);
  };
  return {"pairs", std::move(columns), rows, fill};
}

Table extremes_table(const StudyShape& shape, const std::vector<PairMatrix>& matrices) {
  constexpr std::size_t most = 3;
  std::vector<std::vector<Cell>> rows;
  for (const PairMatrix& matrix : matrices) {
    const auto value = [&](const Pairs::value_type& pair) {
      return matrix.values[pair.first * shape.heads.size() + pair.second];
    };
    Pairs pairs = distinct_pairs(shape.heads.size());
    std::erase_if(pairs, [&](const Pairs::value_type& pair) { return !std::isfinite(value(pair)); });
    const auto add = [&](const char* which, bool low) {
      std::ranges::stable_sort(pairs, [&](const Pairs::value_type& x, const Pairs::value_type& y) {
        return low ? value(x) < value(y) : value(x) > value(y);
      });
      for (std::size_t i = 0; i < std::min(most, pairs.size()); ++i) {
        rows.push_back({std::string(matrix.name), which, shape.heads[pairs[i].first].name,
                        shape.heads[pairs[i].second].name, value(pairs[i])});
      }
    };
    add("most alike", matrix.low_is_alike);
    add("least alike", !matrix.low_is_alike);
  }
  return make_table("pairs", {"measure", "which", "head", "and", "value"}, std::move(rows));
}

/// Returns the symmetric matrix with the values value(a, b), [heads, heads]; NaN where a value is undefined.
template <typename PairValue>
std::vector<float> matrix_of(std::size_t heads, const PairValue& value) {
  std::vector<float> values(heads * heads);
  for (std::size_t a = 0; a < heads; ++a) {
    for (std::size_t b = a; b < heads; ++b)
      values[a * heads + b] = values[b * heads + a] = static_cast<float>(value(a, b).value_or(kUndefined));
  }
  return values;
}

/// Returns sum(a, b) / sqrt(sum(a, a) * sum(b, b)) for each pair of heads a and b, [heads, heads]; NaN if
/// sum(a, a) or sum(b, b) is not positive. `sums` is indexed by analysis::pair_index().
std::vector<float> cosines_of(std::size_t heads, const std::vector<double>& sums) {
  return matrix_of(heads, [&](std::size_t a, std::size_t b) -> std::optional<double> {
    const double own_a = sums[analysis::pair_index(heads, a, a)];
    const double own_b = sums[analysis::pair_index(heads, b, b)];
    if (!(own_a > 0) || !(own_b > 0)) return std::nullopt;
    return a == b ? 1 : sums[analysis::pair_index(heads, a, b)] / (std::sqrt(own_a) * std::sqrt(own_b));
  });
}

class PairsMeasure final : public Measure {
 public:
  explicit PairsMeasure(const StudyShape& shape)
      : Measure(shape), sums_(analysis::pair_count(shape.heads.size())) {}

  [[nodiscard]] forward::Needs needs() const override { return {.z = true}; }
  void set_context(const Measure& so_far) override {
    outputs_end_ = dynamic_cast<const PairsMeasure&>(so_far).outputs_.end();
  }
  void begin(const StudyBlock& block) override {
    const std::vector<model::LayerConfig>& layers = block.model.config().layers;
    bool causal = true;
    columns_ = {0};
    for (const StudyHead& head : shape_.heads) {
      const model::AttentionConfig& attention = layers.at(head.id.layer).attention;
      causal = causal && attention.causal;
      columns_.push_back(columns_.back() + attention.d_value);
    }
    for (const input::Sequence& sequence : block.corpus.batch.sequences) {
      first_row_.push_back(widths_.size());
      const std::size_t n = sequence.queries();
      for (std::size_t i = 0; i < n; ++i) widths_.push_back(causal ? i + 1 : n);
    }
    const std::size_t rows = widths_.size();
    heads_with_row_.assign(rows, 0);
    kept_ = RowSample(widths_, kPatternBytes / sizeof(float) / heads());
    patterns_ = fresh_floats(heads() * kept_.size);
    if (std::ranges::adjacent_find(columns_) != columns_.end()) {  // a head has no values
      columns_.clear();
      return;
    }
    const std::size_t capacity =
        std::max(kOutputBytes / sizeof(float) / columns_.back(), analysis::kLeastOutputs);
    outputs_.set_capacity(capacity);
    drawn_ = draw_rows(shape_.seed, block.corpus.number, rows, capacity, outputs_end_);
    drawn_outputs_.resize(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      if (drawn_[row]) drawn_outputs_[row].resize(columns_.back());
    }
  }
  void panel(const StudyPanel& panel) override {
    const std::size_t first = first_row_[panel.panel.sequence];
    float* const patterns = patterns_.get() + panel.head * kept_.size;
    for (const analysis::PatternRow& row : panel.rows) {
      ++heads_with_row_[first + row.query];
      const std::size_t offset = kept_.offsets[first + row.query];
      if (offset == RowSample::kNone) continue;
      std::copy_n(row.weights.data(), widths_[first + row.query], patterns + offset);
    }
    if (columns_.empty()) return;
    for (std::size_t r = 0; r < panel.panel.z.rows; ++r) {
      std::vector<float>& output = drawn_outputs_[first + panel.panel.first_query + r];
      if (!output.empty()) std::ranges::copy(panel.panel.z.row(r), output.data() + columns_[panel.head]);
    }
  }
  void end() override {
    const std::size_t stride = kept_.size;
    std::size_t rows = kept_.rows;
    // If a row is missing for any head, leaves the row out: sets it to zero for all heads.
    for (std::size_t row = 0; row < heads_with_row_.size(); ++row) {
      const std::size_t offset = kept_.offsets[row];
      if (heads_with_row_[row] == heads() || offset == RowSample::kNone) continue;
      --rows;
      for (std::size_t h = 0; h < heads(); ++h)
        std::fill_n(patterns_.get() + h * stride + offset, widths_[row], 0.0F);
    }
    if (rows > 0) {
      pattern_rows_ += rows;
      const std::span patterns(patterns_.get(), heads() * stride);
      const analysis::PatternPairs pairs = analysis::pattern_pairs(patterns, heads());
      for (std::size_t p = 0; p < sums_.size(); ++p) {
        sums_[p].divergence.add(pairs.divergence[p]);
        sums_[p].product.add(pairs.product[p]);
      }
    }
    const auto finite = [](float value) { return std::isfinite(value); };
    for (std::size_t row = 0; row < drawn_outputs_.size(); ++row) {
      std::vector<float>& output = drawn_outputs_[row];
      if (output.empty() || heads_with_row_[row] < heads() || !std::ranges::all_of(output, finite)) continue;
      outputs_.add(*drawn_[row], std::move(output));
    }
    patterns_.reset();  // frees the memory now, because the measure lives until its block is merged
  }

  void merge(const Measure& other) override {
    const auto& of = dynamic_cast<const PairsMeasure&>(other);
    pattern_rows_ += of.pattern_rows_;
    if (columns_.empty()) columns_ = of.columns_;
    outputs_.merge(of.outputs_);
    merge_state(sums_, of.sums_);
  }
  void save(StateWriter& out) const override {
    out.number(pattern_rows_);
    save_state(out, sums_);
    save_list(out, columns_);
    outputs_.save(out);
  }
  void load(StateReader& in) override {
    pattern_rows_ = in.number();
    load_state(in, sums_);
    load_list(in, columns_);
    const bool ascending =
        std::ranges::adjacent_find(columns_, std::ranges::greater_equal()) == columns_.end();
    if (!columns_.empty() && (columns_.size() != heads() + 1 || columns_.front() != 0 || !ascending))
      in.damaged("the columns of the outputs do not match the heads");
    outputs_.load(in, columns_.empty() ? 0 : columns_.back());
  }
  void finish(StudyResults& results) const override {
    const std::size_t count = heads();
    const auto divergence = [&](std::size_t a, std::size_t b) -> std::optional<double> {
      if (pattern_rows_ == 0) return std::nullopt;
      const double sum = sums_[analysis::pair_index(count, a, b)].divergence.value();
      return std::clamp(sum / static_cast<double>(pattern_rows_), 0.0, std::numbers::ln2);
    };
    std::vector<double> products, criteria(sums_.size());
    for (const PairSums& sums : sums_) products.push_back(sums.product.value());
    if (outputs_.rows().size() >= analysis::kLeastOutputs) {
      analysis::HeadOutputs outputs{.columns = columns_, .rows = {}};
      for (const auto& [key, row] : outputs_.rows()) outputs.rows.emplace_back(row);
      criteria = analysis::output_pairs(outputs);
    }
    std::vector<PairMatrix> matrices = {
        {"js_divergence", true, pattern_rows_, matrix_of(count, divergence)},
        {"frobenius_cosine", false, pattern_rows_, cosines_of(count, products)},
        {"cka", false, outputs_.rows().size(), cosines_of(count, criteria)}};
    List names, items;
    for (const StudyHead& head : shape_.heads) names.emplace_back(head.name);
    for (const PairMatrix& matrix : matrices) {
      items.emplace_back(Record{{{"measure", matrix.name},
                                 {"names", names},
                                 {"rows", matrix.rows},
                                 {"value", make_tensor({count, count}, matrix.values)}}});
    }
    results.document.sections.push_back({"pairs", "pairs", std::move(items)});
    if (count > 1) results.text.emplace_back(TextTable{"Pairs of heads", extremes_table(shape_, matrices)});
    results.tables.push_back(pair_table(shape_, std::move(matrices)));
  }

 private:
  std::uint64_t pattern_rows_ = 0;
  std::vector<PairSums> sums_;
  std::vector<std::size_t> columns_;  // [heads + 1], first column of each head's outputs, then their number;
                                      // empty before the first block, or if a head has no values
  DrawnRows outputs_;
  std::optional<DrawnKey> outputs_end_;  // DrawnRows::end() of the study so far
  // Data of the block, kept until all heads have been processed.
  std::vector<std::size_t> first_row_;             // [sequences], index of the first row in the block
  std::vector<std::size_t> widths_;                // [rows], elements per pattern row
  std::vector<std::size_t> heads_with_row_;        // [rows], number of heads that have the row
  RowSample kept_;                                 // rows whose patterns are kept
  std::shared_ptr<float> patterns_;                // [heads, kept_.size]; fully written before it is read
  std::vector<std::optional<DrawnKey>> drawn_;     // [rows]; nullopt: not in the sample
  std::vector<std::vector<float>> drawn_outputs_;  // [rows]; empty if not in the sample
};

MeasureMemory pairs_memory(const model::ModelConfig& config, std::span<const model::HeadId> heads,
                           const input::Batch& batch) {
  std::uint64_t output_row = 0;  // bytes of the outputs of all heads at one position
  for (const model::HeadId head : heads)
    output_row += sizeof(float) * config.layers.at(head.layer).attention.d_value;
  std::uint64_t rows = 0, weights = 0;
  for (const input::Sequence& sequence : batch.sequences) {
    const std::uint64_t n = sequence.queries();
    rows += n;
    weights = saturating_sum(weights, saturating_product(n, n));
  }
  const std::uint64_t patterns = saturating_product<std::uint64_t>(sizeof(float) * heads.size(), weights);
  const std::uint64_t pairs = analysis::pair_count(heads.size());
  // The sums, three values of the results and their tables.
  const std::uint64_t of_pairs =
      pairs * (2 * sizeof(PairSums) + 6 * sizeof(float) + 2 * sizeof(Pairs::value_type));
  const std::uint64_t sampled = std::max<std::uint64_t>(kOutputBytes, analysis::kLeastOutputs * output_row);
  return {.block = saturating_sum(std::min<std::uint64_t>(patterns, kPatternBytes),
                                  std::min(saturating_product(rows, output_row), sampled)),
          .study = of_pairs + 3 * sampled};  // the sample, a sample to merge, a copy with centred columns
}

}  // namespace

MeasureRow pairs_measure() {
  return {
      .name = "pairs",
      .description = "similarity of each pair of heads: divergence and cosine of patterns, CKA of outputs",
      .make = make_measure<PairsMeasure>,
      .definitions = kPairDefinitions,
      .max_heads = kMaxHeads,
      .memory = pairs_memory};
}

}  // namespace attnctl::study
