#include "forward/attention/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using attnctl::MatrixView;
using attnctl::OwnedMatrix;
using attnctl::forward::AttentionPanel;
using attnctl::input::Batch;
using attnctl::input::Sequence;
using attnctl::model::AttentionConfig;
using attnctl::model::AttentionKind;
namespace forward = attnctl::forward;
using Rule = attnctl::model::AttentionKind::Rule;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

OwnedMatrix<float> random_matrix(std::size_t rows, std::size_t cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  OwnedMatrix<float> matrix(rows, cols);
  for (float& value : matrix.values()) value = normal(random);
  return matrix;
}

/// The result of one head, with the rows of all panels joined.
struct HeadResult {
  OwnedMatrix<float> pattern, scores;
  std::vector<std::uint8_t> fully_masked;
  std::size_t panels = 0;
};

class Collector : public attnctl::forward::Observer {
 public:
  Collector(std::size_t heads, std::size_t queries, std::size_t keys) {
    for (std::size_t head = 0; head < heads; ++head) {
      results.push_back({{queries, keys}, {queries, keys}, std::vector<std::uint8_t>(queries, 9)});
    }
  }
  void begin(const attnctl::model::Model&, const Batch&) override {}
  void panel(const AttentionPanel& panel) override {
    HeadResult& result = results.at(panel.head);
    ++result.panels;
    widest = std::max(widest, panel.keys().size());
    for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
      for (std::size_t j = 0; j < panel.pattern.cols; ++j) {
        if (j >= panel.keys().first && j < panel.keys().last) continue;
        if (panel.pattern(r, j) != 0 || panel.scores(r, j) != -kInfinity) ++written_outside;
      }
      const std::size_t row = panel.first_query + r;
      std::copy_n(panel.pattern.row(r).begin(), panel.pattern.cols, result.pattern.view().row(row).begin());
      std::copy_n(panel.scores.row(r).begin(), panel.scores.cols, result.scores.view().row(row).begin());
      result.fully_masked.at(row) = panel.fully_masked[r];
    }
  }
  std::vector<HeadResult> results;
  std::size_t widest = 0;           // largest number of keys of a panel
  std::size_t written_outside = 0;  // number of values outside of the visible keys that were written
};

/// Runs one sequence through all heads of a layer.
struct Attention {
  Attention(AttentionConfig layer_config, std::size_t queries, std::size_t keys)
      : config(std::move(layer_config)),
        q(random_matrix(queries, config.heads * config.d_head, 1)),
        k(random_matrix(keys, config.kv_heads * config.d_head, 2)),
        v(random_matrix(keys, config.kv_heads * config.d_value, 3)),
        z(queries, config.heads * config.d_value) {
    sequence.embeddings = OwnedMatrix<float>(queries, 1);
    if (keys != queries) sequence.key_embeddings = OwnedMatrix<float>(keys, 1);
  }

  std::vector<forward::RowWarnings> run(Collector& collector, std::size_t panel_rows) {
    Batch batch;
    batch.sequences.push_back(sequence);
    const forward::Block block = forward::cut_into_blocks(batch, 1).front();
    const forward::AttentionLayer layer{config,   4,     q.view(), k.view(),  v.view(),
                                        z.view(), sinks, true,     panel_rows};
    forward::PanelBuffers buffers;
    buffers.reserve(block, layer);
    attnctl::forward::Observer* const observers[] = {&collector};
    std::vector<forward::RowWarnings> reports;
    for (std::size_t head = 0; head < config.heads; ++head) {
      reports.push_back(attnctl::forward::attend(layer, batch, block, head, observers, buffers));
    }
    return reports;
  }

  AttentionConfig config;
  OwnedMatrix<float> q, k, v, z;
  Sequence sequence;
  std::vector<float> sinks;
};

/// The result of a reference implementation with plain loops in double.
struct Definition {
  OwnedMatrix<double> scores, pattern, z;
};

bool kind_hides(const AttentionKind& kind, std::size_t i, std::size_t j) {
  const std::size_t distance = std::max(i, j) - std::min(i, j);
  if (kind.rule == Rule::window) return distance >= kind.size;
  if (kind.rule == Rule::block) return i / kind.size != j / kind.size;
  if (kind.rule == Rule::strided) return distance >= kind.size && distance % kind.size != 0;
  return false;
}

bool is_hidden(const Attention& a, std::size_t head, std::size_t i, std::size_t j) {
  const Sequence& sequence = a.sequence;
  if (kind_hides(a.config.kind, i, j)) return true;
  if (!sequence.key_visible.empty() && sequence.key_visible[j] == 0) return true;
  if (sequence.mask) {
    const std::size_t mask_head = sequence.mask->heads == 1 ? 0 : head;
    return std::isinf(sequence.mask->added[(mask_head * a.q.rows() + i) * a.k.rows() + j]);
  }
  return sequence.causal.value_or(a.config.causal) && j > i;
}

double score(const Attention& a, std::size_t head, std::size_t i, std::size_t j) {
  const std::size_t kv = head * a.config.kv_heads / a.config.heads;
  const bool linear = a.config.kind.rule == Rule::linear;
  const auto phi = [&](float x) {
    return linear ? std::max(double{x}, 0.0) + std::exp(std::min(double{x}, 0.0)) : double{x};
  };
  double sum = 0;
  for (std::size_t c = 0; c < a.config.d_head; ++c) {
    sum += phi(a.q(i, head * a.config.d_head + c)) * phi(a.k(j, kv * a.config.d_head + c));
  }
  if (linear) return std::log(sum);
  sum *= a.config.scale;
  if (!a.sequence.mask) return sum;
  const std::size_t mask_head = a.sequence.mask->heads == 1 ? 0 : head;
  return sum + double{a.sequence.mask->added[(mask_head * a.q.rows() + i) * a.k.rows() + j]};
}

Definition define(const Attention& a, std::size_t head) {
  const std::size_t kv = head * a.config.kv_heads / a.config.heads;
  const std::size_t n = a.q.rows();
  const std::size_t m = a.k.rows();
  Definition d{{n, m}, {n, m}, {n, a.config.d_value}};
  for (std::size_t i = 0; i < n; ++i) {
    double total = 0;
    for (std::size_t j = 0; j < m; ++j) {
      d.scores(i, j) =
          is_hidden(a, head, i, j) ? -std::numeric_limits<double>::infinity() : score(a, head, i, j);
      total += std::exp(d.scores(i, j));
    }
    for (std::size_t j = 0; j < m && total > 0; ++j) {
      d.pattern(i, j) = std::exp(d.scores(i, j)) / total;
      for (std::size_t c = 0; c < a.config.d_value; ++c) {
        d.z(i, c) += d.pattern(i, j) * double{a.v(j, kv * a.config.d_value + c)};
      }
    }
  }
  return d;
}

double worst_difference(const OwnedMatrix<double>& want, MatrixView<const float> got) {
  double worst = 0;
  for (std::size_t i = 0; i < want.rows(); ++i) {
    for (std::size_t j = 0; j < want.cols(); ++j) {
      const double b = double{got(i, j)};
      if (std::isinf(want(i, j)) && want(i, j) == b) continue;
      const double difference = std::abs(want(i, j) - b);
      if (!(difference <= worst)) worst = difference;  // also takes a NaN
    }
  }
  return worst;
}

AttentionConfig grouped(std::size_t heads, std::size_t kv_heads, bool causal) {
  AttentionConfig config;
  config.heads = heads;
  config.kv_heads = kv_heads;
  config.d_head = 5;
  config.d_value = 3;
  config.scale = 0.4;
  config.causal = causal;
  return config;
}

/// Returns random values to add to scores, a third of them -inf. In the first head, query 1 sees no key.
attnctl::input::ScoreMask random_mask(std::size_t heads, std::size_t queries, std::size_t keys) {
  attnctl::input::ScoreMask mask{heads, queries, keys, {}};
  const OwnedMatrix<float> values = random_matrix(heads * queries, keys, 9);
  mask.added.assign(values.values().begin(), values.values().end());
  for (float& value : mask.added) {
    if (value < -0.5F) value = -kInfinity;
  }
  std::fill_n(mask.added.begin() + static_cast<std::ptrdiff_t>(keys), keys, -kInfinity);
  return mask;
}

struct Case {
  std::string_view name;
  Attention attention;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({"bidirectional", {grouped(3, 3, false), 37, 37}});
  all.push_back({"causal", {grouped(3, 3, true), 37, 37}});
  all.push_back({"grouped", {grouped(6, 2, true), 20, 20}});
  all.push_back({"multi-query", {grouped(4, 1, false), 9, 9}});
  all.push_back({"one token", {grouped(2, 2, true), 1, 1}});
  all.push_back({"cross", {grouped(2, 1, false), 7, 23}});
  all.push_back({"causal, fewer keys", {grouped(2, 2, true), 23, 7}});
  for (const std::size_t window : {1U, 4U, 36U, 100U}) {
    all.push_back({"window", {grouped(2, 2, true), 37, 37}});
    all.back().attention.config.kind = {Rule::window, window};
  }
  all.push_back({"unmasked", {grouped(2, 2, true), 12, 12}});
  all.back().attention.sequence.causal = false;
  all.push_back({"score mask in place of the causal one", {grouped(2, 2, true), 12, 12}});
  all.back().attention.sequence.mask = random_mask(1, 12, 12);
  all.push_back({"score mask for each head, other keys", {grouped(3, 3, false), 12, 17}});
  all.back().attention.sequence.mask = random_mask(3, 12, 17);
  for (const bool causal : {false, true}) {
    all.push_back({"hidden keys", {grouped(3, 3, causal), 16, 16}});
    all.back().attention.sequence.key_visible.assign(16, 1);
    for (const std::size_t j : {0U, 5U, 15U}) all.back().attention.sequence.key_visible[j] = 0;
  }
  for (const AttentionKind kind :
       {AttentionKind{Rule::window, 4}, AttentionKind{Rule::block, 5}, AttentionKind{Rule::strided, 1},
        AttentionKind{Rule::strided, 4}, AttentionKind{Rule::strided, 100}, AttentionKind{Rule::linear, 0}}) {
    for (const bool causal : {false, true}) {
      const auto add = [&](std::string_view name, std::size_t queries, std::size_t keys) -> Attention& {
        all.push_back({name, {grouped(4, 2, causal), queries, keys}});
        all.back().attention.config.kind = kind;
        return all.back().attention;
      };
      add("a kind", 37, 37);
      add("a kind, one token", 1, 1);
      add("a kind, fewer keys", 23, 7);
      add("a kind, more keys", 7, 23);
      Attention& padded = add("a kind, hidden keys", 16, 16);
      padded.sequence.key_visible.assign(16, 1);
      for (const std::size_t j : {0U, 5U, 6U, 15U}) padded.sequence.key_visible[j] = 0;
      if (kind.rule != Rule::linear) add("a kind, score mask", 12, 17).sequence.mask = random_mask(4, 12, 17);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("scores, pattern and z of every head equal the definition for any panel size") {
  for (Case& row : cases()) {
    for (const std::size_t panel_rows : {1U, 5U, 128U}) {
      CAPTURE(row.name);
      CAPTURE(panel_rows);
      Attention& attention = row.attention;
      const AttentionConfig& config = attention.config;
      const std::size_t n = attention.q.rows();
      Collector collector(config.heads, n, attention.k.rows());
      attention.run(collector, panel_rows);
      for (std::size_t head = 0; head < config.heads; ++head) {
        const Definition want = define(attention, head);
        const HeadResult& got = collector.results[head];
        CHECK(got.panels == (n + panel_rows - 1) / panel_rows);
        CHECK(collector.written_outside == 0);
        CHECK(worst_difference(want.pattern, got.pattern.view()) <= 1e-6);
        CHECK(worst_difference(want.scores, got.scores.view()) <= 4e-6);
        const auto z = attention.z.view().col_range(head * config.d_value, config.d_value);
        CHECK(worst_difference(want.z, z) <= 2e-6);
      }
    }
  }
}

TEST_CASE("panels of window and block attention hold only the visible keys") {
  struct Row {
    AttentionKind kind;
    bool causal;
    std::size_t most;  // number of keys of a panel of 32 rows
  };
  for (const Row& row : {Row{{Rule::window, 8}, false, 32 + 14}, Row{{Rule::window, 8}, true, 32 + 7},
                         Row{{Rule::block, 8}, false, 32}, Row{{Rule::block, 5}, false, 40}}) {
    Attention attention(grouped(1, 1, row.causal), 2000, 2000);
    attention.config.kind = row.kind;
    Collector collector(1, 2000, 2000);
    attention.run(collector, 32);
    CHECK(collector.widest == row.most);
  }
}

TEST_CASE("a row without visible keys is zeros, flagged and counted") {
  Attention attention(grouped(2, 2, false), 12, 12);
  attention.sequence.mask = random_mask(1, 12, 12);
  Collector collector(2, 12, 12);
  const auto reports = attention.run(collector, 5);
  for (std::size_t head = 0; head < 2; ++head) {
    CHECK(reports[head].fully_masked.count == 1);
    CHECK(reports[head].fully_masked.query == 1);
    CHECK(reports[head].non_finite.count == 0);
    for (std::size_t i = 0; i < 12; ++i) {
      CHECK(collector.results[head].fully_masked[i] == (i == 1 ? 1 : 0));
    }
    for (const float p : collector.results[head].pattern.view().row(1)) CHECK(p == 0);
  }
  for (const float value : attention.z.view().row(1)) CHECK(value == 0);

  attention.sequence.mask.reset();
  attention.sequence.key_visible.assign(12, 0);
  CHECK(attention.run(collector, 5)[1].fully_masked.count == 12);
}

TEST_CASE("a row whose visible scores all overflow to -inf is NaN for every kind of attention") {
  struct Row {
    AttentionKind kind;
    std::vector<float> sinks;
  };
  for (const Row& row :
       {Row{{}, {}}, Row{{Rule::window, 8}, {}}, Row{{Rule::strided, 4}, {}}, Row{{}, {0.5F}}}) {
    Attention attention(grouped(1, 1, false), 12, 12);
    attention.config.kind = row.kind;
    attention.sinks = row.sinks;
    std::ranges::fill(attention.q.values(), -1e20F);
    std::ranges::fill(attention.k.values(), 1e20F);
    attention.sequence.key_visible.assign(12, 1);
    attention.sequence.key_visible[7] = 0;
    for (float& value : attention.q.view().row(3)) value = 0;  // makes the scores of query 3 zero
    Collector collector(1, 12, 12);
    const auto reports = attention.run(collector, 5);
    CHECK(reports[0].fully_masked.count == 0);
    CHECK(reports[0].non_finite.count == 11);
    for (std::size_t i = 0; i < 12; ++i) {
      CHECK(collector.results[0].fully_masked[i] == 0);
      CHECK(std::isnan(collector.results[0].pattern(i, i)) == (i != 3));
      CHECK(std::isnan(attention.z(i, 0)) == (i != 3));
    }
  }
}

TEST_CASE("a hidden key that is NaN or infinite changes nothing") {
  for (const float bad : {kNotANumber, kInfinity}) {
    Attention clean(grouped(3, 3, false), 20, 20);
    clean.sequence.key_visible.assign(20, 1);
    clean.sequence.key_visible[7] = 0;
    Attention dirty = clean;
    for (float& value : dirty.k.view().row(7)) value = bad;
    for (float& value : dirty.v.view().row(7)) value = bad;
    Collector clean_collector(3, 20, 20);
    Collector dirty_collector(3, 20, 20);
    clean.run(clean_collector, 8);
    const auto reports = dirty.run(dirty_collector, 8);
    for (std::size_t head = 0; head < 3; ++head) {
      CHECK(reports[head].non_finite.count == 0);
      const auto want = clean_collector.results[head].pattern.values();
      CHECK(std::equal(want.begin(), want.end(), dirty_collector.results[head].pattern.values().begin()));
    }
    bool close = true;
    for (std::size_t i = 0; i < clean.z.values().size(); ++i) {
      close = close && std::abs(clean.z.values()[i] - dirty.z.values()[i]) <= 1e-6F;
    }
    CHECK(close);
  }
}

TEST_CASE("a mask of -inf hides a NaN, and a later key's NaN does not reach earlier queries") {
  Attention attention(grouped(1, 1, false), 6, 6);
  attention.sequence.mask = attnctl::input::ScoreMask{1, 6, 6, std::vector<float>(36, 0)};
  for (std::size_t i = 0; i < 6; ++i) attention.sequence.mask->added[i * 6 + 2] = -kInfinity;
  for (float& value : attention.k.view().row(2)) value = kNotANumber;
  Collector collector(1, 6, 6);
  CHECK(attention.run(collector, 128)[0].non_finite.count == 0);

  Attention causal(grouped(1, 1, true), 6, 6);
  for (float& value : causal.k.view().row(4)) value = kNotANumber;
  for (float& value : causal.v.view().row(4)) value = kNotANumber;
  const auto reports = causal.run(collector, 128);
  CHECK(reports[0].non_finite.count == 2);
  CHECK(reports[0].non_finite.query == 4);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(std::isnan(collector.results[0].pattern(i, 0)) == (i >= 4));
    CHECK(std::isnan(causal.z(i, 0)) == (i >= 4));
  }
}

TEST_CASE("scores of 1e30 give an exact pattern") {
  Attention attention(grouped(1, 1, false), 3, 3);
  for (float& value : attention.q.values()) value = 1e15F;
  for (std::size_t j = 0; j < 3; ++j) {
    for (float& value : attention.k.view().row(j)) value = j == 1 ? 1e15F : -1e15F;
  }
  Collector collector(1, 3, 3);
  CHECK(attention.run(collector, 128)[0].non_finite.count == 0);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) CHECK(collector.results[0].pattern(i, j) == (j == 1 ? 1 : 0));
  }
}

TEST_CASE("panels have fewer rows for many keys") {
  CHECK(forward::rows_of_panel(128, 10) == 128);
  CHECK(forward::rows_of_panel(128, 32768) < 128);
  CHECK(forward::rows_of_panel(128, 32768) * 32768 <= std::size_t{1} << 20U);
  CHECK(forward::rows_of_panel(128, std::size_t{1} << 40U) >= 1);
  CHECK(forward::rows_of_panel(4, std::size_t{1} << 40U) == 4);
}
