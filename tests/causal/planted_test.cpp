#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "causal/gradient.hpp"
#include "causal/interventions.hpp"
#include "support/memory_checkpoint.hpp"

namespace attnctl::test {
namespace {

/// Sets the rows of W_O [heads * v, d] of a layer to 0, except for those of one head; `kept` may be any
/// number.
void keep_head(MemoryModel& model, std::size_t layer, std::size_t kept, std::size_t heads) {
  MemoryTensor& output = model.tensors.at("transformer.h." + std::to_string(layer) + ".attn.c_proj.weight");
  const std::size_t bytes = output.bytes.size() / heads;
  for (std::size_t head = 0; head < heads; ++head)
    if (head != kept) std::memset(output.bytes.data() + head * bytes, 0, bytes);
}

causal::CausalPass pass_of(const model::Model& model, const input::Batch& batch,
                           const std::vector<causal::ScoredQueries>& scored, forward::RunContext& context) {
  return {{.model = model, .batch = batch, .scored = scored}, context};
}

TEST_CASE(
    "a planted head is found with the right sign and size, and heads that write nothing have no effect") {
  constexpr std::size_t kLayers = 2, kHeads = 3, kNone = 99;
  for (const model::HeadId planted : {model::HeadId{0, 2}, model::HeadId{1, 0}}) {
    MemoryModel with = MemoryModel::golden("gpt2"), without = MemoryModel::golden("gpt2");
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      keep_head(with, layer, layer == planted.layer ? planted.head : kNone, kHeads);
      keep_head(without, layer, kNone, kHeads);
    }
    const model::Model model = with.bound(), bare = without.bound();
    input::Batch batch;
    batch.sequences.emplace_back().ids = {3, 1, 4, 1, 5, 9, 2, 6};
    const std::vector<causal::ScoredQueries> scored = {{{0, 2, 4, 6}, {1, 1, 9, 6}, {}}};
    Pool pool(1);
    Warnings warnings;
    forward::RunContext context{.pool = pool, .warnings = warnings};
    const causal::CausalPass pass = pass_of(model, batch, scored, context);
    const double change =
        pass_of(bare, batch, scored, context).predictions()[0].loss - pass.predictions()[0].loss;
    CHECK(std::abs(change) > 1e-3);
    std::vector<causal::Intervention> removals;
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      for (std::size_t head = 0; head < kHeads; ++head) removals.push_back({0, {{{layer, head}, {}}}, {}});
    }
    const std::vector<causal::Effect> effects = pass.run(removals, context);
    const auto gradients = causal::loss_gradients(model, batch, scored, pass.recorded(), context);
    for (std::size_t i = 0; i < removals.size(); ++i) {
      const bool found = removals[i].heads[0].head == planted;
      const causal::LinearEstimate linear =
          causal::estimate(model.config(), removals[i], pass.recorded()[0], gradients[0]);
      if (found) {
        CHECK(effects[i].loss == doctest::Approx(change).epsilon(1e-4));
        CHECK(effects[i].divergence > 0);
        CHECK(linear.importance > 0);
      } else {
        CHECK(std::abs(effects[i].loss) <= 1e-6);
        CHECK(effects[i].divergence <= 1e-6);
        CHECK(linear.importance == 0);
      }
    }
  }
}

}  // namespace
}  // namespace attnctl::test
