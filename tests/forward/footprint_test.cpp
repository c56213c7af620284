#include "forward/footprint.hpp"

#include <cstdint>

#include <doctest/doctest.h>

#include "support/memory_checkpoint.hpp"

using attnctl::Batch;
using attnctl::Model;
using attnctl::Needs;
using attnctl::PassFootprint;
using attnctl::PassShape;
using attnctl::Selection;
using attnctl::test::MemoryModel;

namespace {

Batch of_length(std::size_t n, std::size_t sequences = 1) {
  Batch batch;
  for (std::size_t i = 0; i < sequences; ++i) batch.sequences.emplace_back().ids.assign(n, 1);
  return batch;
}

Selection up_to(const Model& model, std::size_t layers) {
  Selection selection = Selection::all(model.config());
  std::erase_if(selection.heads, [&](attnctl::HeadId head) { return head.layer >= layers; });
  return selection;
}

}  // namespace

TEST_CASE("the footprint grows with tokens, layers, threads and needs") {
  const Model model = MemoryModel::golden("llama").bound();
  const std::size_t layers = model.config().layers.size();
  const auto of = [&](std::size_t n, std::size_t count, std::size_t threads, const Needs& needs = {}) {
    return pass_footprint(model, of_length(n), up_to(model, count), needs, PassShape{.threads = threads});
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
  const PassFootprint pass = pass_footprint(model, of_length(5, 100), Selection::all(model.config()), {},
                                            PassShape{.packed_rows = 10});
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
