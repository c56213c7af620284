#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "analysis/weights/weights.hpp"
#include "base/pool.hpp"
#include "forward/run.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"
#include "support/memory_checkpoint.hpp"

using attnctl::OwnedMatrix;
using attnctl::forward::Needs;
using attnctl::forward::PassFootprint;
using attnctl::forward::Selection;
using attnctl::input::Batch;
using attnctl::model::Model;
using attnctl::test::CapturedHead;
using attnctl::test::CapturedSequence;
using attnctl::test::MemoryModel;

namespace {

Batch of_length(std::size_t n, std::size_t sequences = 1) {
  Batch batch;
  for (std::size_t i = 0; i < sequences; ++i) batch.sequences.emplace_back().ids.assign(n, 1);
  return batch;
}

Selection up_to(const Model& model, std::size_t layers) {
  Selection selection = Selection::all(model.config());
  std::erase_if(selection.heads, [&](attnctl::model::HeadId head) { return head.layer >= layers; });
  return selection;
}

}  // namespace

TEST_CASE("the footprint grows with tokens, layers, threads and needs") {
  const Model model = MemoryModel::golden("llama").bound();
  const std::size_t layers = model.config().layers.size();
  const auto of = [&](std::size_t n, std::size_t count, std::size_t threads, const Needs& needs = {}) {
    return attnctl::forward::pass_footprint(model, of_length(n), up_to(model, count), needs, threads);
  };
  for (const std::size_t n : {1U, 7U, 64U, 4096U}) {
    CAPTURE(n);
    const PassFootprint base = of(n, 1, 1);
    CHECK(of(2 * n, 1, 1).resident() > base.resident());
    CHECK(of(2 * n, 1, 1).streamed(0) > base.streamed(0));
    CHECK(of(n, layers, 1).resident() > base.resident());
    CHECK(of(n, layers, 1).streamed(0) >= base.streamed(0));
    CHECK(of(n, 1, 3).resident() > base.resident());
    CHECK(of(n, 1, 1, {.scores = true}).resident() > base.resident());
    CHECK(of(n, 1, 1, {.values = true}).resident() > base.resident());
    CHECK(of(n, 1, 1, {.logits = true}).resident() > base.resident());
    CHECK(of(n, layers, 1).streamed(0) <= of(n, layers, 1).resident());
  }
}

TEST_CASE("routing keeps the routes of all rows of a block") {
  const Model model = MemoryModel::golden("mixtral").bound();
  const auto activations = [&](std::size_t n, bool routing) {
    return attnctl::forward::pass_footprint(model, of_length(n), up_to(model, 1),
                                            {.routing = routing, .end = true}, {})
        .activations;
  };
  const std::size_t n = std::size_t{1} << 20U;
  const std::uint64_t least = n * sizeof(attnctl::forward::ExpertRoute);
  CHECK(activations(n, true) >= activations(n, false) + least);
}

TEST_CASE("the footprints of all parts of a model add up to its parameters in float32") {
  const Model model = MemoryModel::golden("llama").bound();
  std::uint64_t all = 0;
  for (std::size_t layer = 0; layer < model.config().layers.size(); ++layer) {
    CHECK(model.attention_bytes(layer) < model.layer_bytes(layer));
    all += model.layer_bytes(layer);
  }
  CHECK(all <= model.parameters() * sizeof(float) + 4096);  // includes norms and joined copies
  CHECK(all + model.head_bytes() +
            model.config().embedding.vocabulary * model.config().d_model * sizeof(float) >=
        model.parameters() * sizeof(float));
}

TEST_CASE("streamed rows use the remaining memory") {
  const Model model = MemoryModel::golden("llama").bound();
  const PassFootprint pass = attnctl::forward::pass_footprint(model, of_length(5, 100),
                                                              Selection::all(model.config()), {}, 1, 128, 10);
  CHECK(pass.block_rows == 10);
  CHECK(pass.streamed_rows(pass.streamed(0) - 1) == 0);
  CHECK(pass.streamed_rows(pass.streamed(0)) == 10);
  for (const std::size_t rows : {11U, 57U, 500U}) {
    CHECK(pass.streamed_rows(pass.streamed(rows)) == rows);
    CHECK(pass.streamed_rows(pass.streamed(rows) - 1) == rows - 1);
  }
}

TEST_CASE("sizes that overflow do not fit") {
  PassFootprint pass;
  pass.row = UINT64_MAX / 2;
  pass.block_rows = 3;
  CHECK(pass.streamed(0) == UINT64_MAX);
  CHECK(pass.resident() == UINT64_MAX);
  pass.streamed_weights = UINT64_MAX;
  CHECK(pass.streamed_rows(UINT64_MAX - 1) == 0);
}

namespace {

/// Returns true if all bits are equal, so a NaN equals itself.
template <typename T>
bool same(const OwnedMatrix<T>& a, const OwnedMatrix<T>& b) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return false;
  return a.values().empty() ||
         std::memcmp(a.values().data(), b.values().data(), a.values().size_bytes()) == 0;
}

bool same(const CapturedHead& a, const CapturedHead& b) {
  return same(a.pattern, b.pattern) && same(a.scores, b.scores) && same(a.z, b.z) && same(a.q, b.q) &&
         same(a.k, b.k) && same(a.v, b.v) && a.fully_masked == b.fully_masked;
}

bool same(const CapturedSequence& a, const CapturedSequence& b) {
  const auto same_entry = [](const auto& x, const auto& y) {
    return x.first == y.first && same(x.second, y.second);
  };
  return std::ranges::equal(a.heads, b.heads, same_entry) &&
         std::ranges::equal(a.output, b.output, same_entry) && same(a.logits, b.logits);
}

}  // namespace

TEST_CASE("a pass is bit for bit the same if weights are released layer by layer") {
  for (const auto& directory : attnctl::test::golden_models()) {
    CAPTURE(directory.filename().string());
    const attnctl::test::Golden golden(directory);
    attnctl::Warnings warnings;
    const attnctl::model::Model model = attnctl::test::bind_model(directory, warnings);
    attnctl::input::Batch batch;
    for (std::size_t i = 0; i < golden.inputs(); ++i) {
      batch.sequences.push_back(golden.sequence(i));
      batch.sequences.push_back(golden.sequence(i));
    }
    const auto kept = attnctl::test::capture_all(model, batch, {.threads = 2, .packed_rows = 4});
    for (const std::size_t rows : {1U, 13U, 1000U}) {  // one block, a few blocks, all rows
      CAPTURE(rows);
      const auto streamed =
          attnctl::test::capture_all(model, batch, {.threads = 2, .packed_rows = 4, .streamed_rows = rows});
      const bool equal =
          std::ranges::equal(kept, streamed, [](const auto& a, const auto& b) { return same(a, b); });
      CHECK(equal);
    }
  }
}

TEST_CASE("an analysis of weights is bit for bit the same if weights are released layer by layer") {
  attnctl::Pool pool(2);
  for (const auto& directory : attnctl::test::golden_models()) {
    CAPTURE(directory.filename().string());
    for (const bool fold_norm : {false, true}) {
      attnctl::Warnings warnings[2];
      const auto analyze = [&](bool streamed) {
        const attnctl::model::Model model = attnctl::test::bind_model(directory, warnings[streamed ? 1 : 0]);
        return attnctl::analysis::analyze_weights(
            model, attnctl::forward::Selection::all(model.config()),
            {.fold_norm = fold_norm, .directions = 2, .streamed = streamed}, pool,
            warnings[streamed ? 1 : 0]);
      };
      const attnctl::analysis::WeightsAnalysis kept = analyze(false);
      const attnctl::analysis::WeightsAnalysis streamed = analyze(true);
      REQUIRE(kept.ov.has_value() == streamed.ov.has_value());
      const auto check = [](const attnctl::analysis::CircuitAnalysis& a,
                            const attnctl::analysis::CircuitAnalysis& b) {
        const bool heads = std::ranges::equal(a.heads, b.heads, [](const auto& x, const auto& y) {
          return x.head == y.head && x.singular_values == y.singular_values &&
                 x.effective_rank == y.effective_rank && x.stable_rank == y.stable_rank &&
                 x.numerical_rank == y.numerical_rank && same(x.left, y.left) && same(x.right, y.right);
        });
        const bool similarity =
            std::ranges::equal(a.similarity, b.similarity, [](const auto& x, const auto& y) {
              return x.layer == y.layer && x.heads == y.heads && same(x.values, y.values);
            });
        CHECK(heads);
        CHECK(similarity);
      };
      check(kept.qk, streamed.qk);
      if (kept.ov) check(*kept.ov, *streamed.ov);
      const auto list = warnings[0].list();
      const auto other = warnings[1].list();
      const bool alike = std::ranges::equal(list, other, [](const auto& a, const auto& b) {
        return a.code == b.code && a.message == b.message;
      });
      CHECK(alike);
    }
  }
}
