#include "analysis/patterns/capture.hpp"

#include <functional>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "support/panels.hpp"

namespace attnctl::analysis {
namespace {

/// Returns a model with 6 heads on 2 key/value heads per layer and d_head 10 (the golden model `llama`).
const model::Model& llama() {
  static const model::Model model = test::open_golden("llama");
  return model;
}

TEST_CASE("head axes are two where every layer has the same heads, else one") {
  struct Row {
    std::vector<model::HeadId> heads;
    Shape heads_shape, kv_shape;
  };
  for (const Row& row :
       {Row{{{0, 0}, {0, 5}, {1, 0}, {1, 5}}, {2, 2, 7}, {2, 2, 7}},
        Row{{{0, 0}, {0, 1}, {0, 2}}, {1, 3, 7}, {1, 1, 7}}, Row{{{0, 1}, {1, 2}}, {2, 7}, {2, 1, 7}},
        Row{{{0, 0}, {0, 5}, {1, 0}}, {3, 7}, {3, 7}}, Row{{{0, 0}, {0, 1}, {0, 2}, {1, 5}}, {4, 7}, {2, 7}},
        Row{{{1, 3}}, {1, 1, 7}, {1, 1, 7}}}) {
    const std::vector<std::size_t> rest{7};
    const HeadAxes axes(row.heads);
    CHECK(axes.shape(rest) == row.heads_shape);
    for (std::size_t i = 0; i < row.heads.size(); ++i) CHECK(axes.place(row.heads[i]) == i);
    CHECK_FALSE(axes.place({9, 0}).has_value());
    CHECK(HeadAxes::of_kv_heads(row.heads, llama().config()).shape(rest) == row.kv_shape);
  }
}

/// Returns a matrix of consecutive numbers, so that each value identifies its source.
OwnedMatrix<float> numbered(std::size_t rows, std::size_t cols, float first) {
  OwnedMatrix<float> matrix(rows, cols);
  std::iota(matrix.values().begin(), matrix.values().end(), first);
  return matrix;
}

/// A sink that fails if an element is written twice.
class OnceSink final : public ArraySink {
 public:
  explicit OnceSink(const Shape& shape)
      : values(std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>()), -1) {}
  void write(std::size_t offset, std::span<const float> given) override {
    for (const float value : given) {
      REQUIRE(offset < values.size());
      CHECK(values[offset] == -1);
      values[offset++] = value;
    }
  }
  std::vector<float> values;
};

TEST_CASE("every captured element lands in its place once") {
  constexpr std::size_t n = 5;
  const forward::Selection selection{{{0, 1}, {0, 2}, {0, 4}, {1, 1}, {1, 2}, {1, 4}}};
  const CaptureLayout layout(selection, llama().config());
  input::Batch batch;
  batch.sequences.resize(2);
  for (input::Sequence& sequence : batch.sequences) sequence.ids.assign(n, 1);
  std::map<Captured, OnceSink> sinks;
  std::vector<CaptureTarget> targets;
  for (const Captured what : kAllCaptured) {
    REQUIRE(layout.available(what));
    const auto added = sinks.emplace(what, OnceSink(layout.shape(what, batch.sequences[1])));
    targets.push_back({what, 1, &added.first->second});
  }
  Capture capture(layout, targets);
  const forward::Needs needs = capture.needs();
  CHECK((needs.scores && needs.values && needs.z && needs.output && needs.logits));
  capture.begin(llama(), batch);
  std::map<Captured, std::vector<float>> want;
  const auto expect = [&](Captured what, const OwnedMatrix<float>& part) {
    want[what].insert(want[what].end(), part.values().begin(), part.values().end());
  };
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (std::size_t head = 0; head < 6; ++head) {
      forward::AttentionPanel where;
      where.sequence = 1;
      where.layer = layer;
      where.head = head;
      const auto base = static_cast<float>(1000 * (layer * 6 + head));
      const auto pattern = numbered(n, n, base);
      const auto scores = numbered(n, n, base + 100);
      const auto q = numbered(n, 10, base + 200);
      const auto z = numbered(n, 10, base + 300);
      const auto kv = numbered(n, 24, base + 400);  // wider than one head, so its keys and values are strided
      const auto shared = numbered(n, 24, static_cast<float>(1000 * (layer * 6 + head - head % 3)));
      where.scores = scores.view();
      where.q = q.view();
      where.z = z.view();
      where.k = shared.view().col_range(2, 10);
      where.v = shared.view().col_range(14, 10);
      test::show(capture, where, pattern.view(), 2);
      if (head != 1 && head != 2 && head != 4) continue;
      expect(Captured::pattern, pattern);
      expect(Captured::scores, scores);
      expect(Captured::queries, q);
      expect(Captured::z, z);
      if (head == 2) continue;  // shares the key/value head of head 1
      for (std::size_t r = 0; r < n; ++r) {
        for (std::size_t c = 0; c < 10; ++c) {
          want[Captured::keys].push_back(shared(r, 2 + c));
          want[Captured::values].push_back(shared(r, 14 + c));
        }
      }
    }
    const auto output = numbered(n, 24, static_cast<float>(50000 + 1000 * layer));
    capture.output(1, layer, output.view());
    expect(Captured::output, output);
  }
  const auto logits = numbered(n, 39, 90000);
  capture.logits(1, 0, logits.view().row_range(0, 3));
  capture.logits(1, 3, logits.view().row_range(3, 2));
  expect(Captured::logits, logits);
  for (const Captured what : kAllCaptured) {
    CAPTURE(name_of(what));
    CHECK((sinks.at(what).values == want.at(what)));
  }
}

TEST_CASE("shapes are those of the arrays that are written") {
  input::Sequence cross;
  cross.embeddings = OwnedMatrix<float>(3, 24);
  cross.key_embeddings = OwnedMatrix<float>(5, 24);
  const CaptureLayout layout({{{0, 0}, {0, 1}, {1, 0}, {1, 1}}}, llama().config());
  CHECK(layout.shape(Captured::pattern, cross) == Shape{2, 2, 3, 5});
  CHECK(layout.shape(Captured::queries, cross) == Shape{2, 2, 3, 10});
  CHECK(layout.shape(Captured::keys, cross) == Shape{2, 1, 5, 10});
  CHECK(layout.shape(Captured::values, cross) == Shape{2, 1, 5, 10});
  CHECK(layout.shape(Captured::z, cross) == Shape{2, 2, 3, 10});
  CHECK(layout.shape(Captured::output, cross) == Shape{2, 3, 24});
  CHECK(layout.shape(Captured::logits, cross) == Shape{3, 39});
  model::ModelConfig mixed = llama().config();
  mixed.layers[1].attention.d_value = 7;
  const CaptureLayout sizes({{{0, 0}, {1, 0}}}, mixed);
  CHECK(sizes.shape(Captured::queries, cross) == Shape{2, 1, 3, 10});
  CHECK_THROWS_AS((void)sizes.shape(Captured::z, cross), Error);
  const model::Model headless = test::open_golden("bert-headless");
  CHECK_FALSE(CaptureLayout({{{0, 0}}}, headless.config()).available(Captured::logits));
}

TEST_CASE("an array in memory is taken whole") {
  MemorySink sink({2, 3});
  sink.write(3, std::vector<float>{4, 5, 6});
  sink.write(0, std::vector<float>{1, 2, 3});
  CHECK_THROWS_AS(sink.write(5, std::vector<float>{1, 2}), std::logic_error);
  const Tensor array = sink.take();
  CHECK(array.shape == Shape{2, 3});
  const auto values = std::get<std::span<const float>>(array.values);
  CHECK(std::vector<float>(values.begin(), values.end()) == std::vector<float>{1, 2, 3, 4, 5, 6});
}

}  // namespace
}  // namespace attnctl::analysis
