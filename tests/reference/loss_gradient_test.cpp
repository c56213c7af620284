#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "reference/reference.hpp"
#include "support/intervention_golden.hpp"
#include "support/memory_checkpoint.hpp"

namespace attnctl::reference {
namespace {

/// Returns the mean over the queries of -ln softmax(logits)[target].
double loss_of(const OwnedMatrix<double>& logits, const std::vector<std::size_t>& queries,
               const std::vector<std::int64_t>& targets) {
  double loss = 0;
  for (std::size_t q = 0; q < queries.size(); ++q) {
    const std::span<const double> row = logits.view().row(queries[q]);
    double sum = 0;
    for (const double logit : row) sum += std::exp(logit - row.front());
    loss += row.front() + std::log(sum) - row[static_cast<std::size_t>(targets[q])];
  }
  return loss / static_cast<double>(queries.size());
}

/// Checks the gradients of a loss along the direction of ones with central differences, for the z of each
/// head of a layer.
void check_by_differences(const model::Model& model, const input::Sequence& sequence, std::size_t layer) {
  Pool pool(1);
  const std::size_t last = model.config().layers.size() - 1;
  const input::Sequence& of_logits = sequence.target ? *sequence.target : sequence;
  std::vector<std::size_t> queries;
  std::vector<std::int64_t> targets;
  for (std::size_t q = 0; q + 1 < of_logits.ids.size(); ++q) {
    queries.push_back(q);
    targets.push_back(of_logits.ids[q + 1]);
  }
  const LossGradient got = loss_gradient(model, sequence, queries, targets, pool);
  const std::size_t width = model.config().layers[layer].attention.d_value;
  const auto loss_with = [&](std::size_t head, double step) {
    ReferenceEdits edits;
    edits.heads = [&](std::size_t index, MatrixView<double> z) {
      if (index != layer) return;
      for (std::size_t r = 0; r < z.rows; ++r) {
        for (std::size_t c = 0; c < width; ++c) z(r, head * width + c) += step;
      }
    };
    return loss_of(run_reference(model, sequence, last, true, pool, edits).logits, queries, targets);
  };
  CHECK(got.loss == doctest::Approx(loss_with(0, 0)).epsilon(1e-12));
  double largest = 0, difference = 0;
  for (std::size_t head = 0; head < got.d_z[layer].size(); ++head) {
    double slope = 0;
    for (const double value : got.d_z[layer][head].values()) slope += value;
    constexpr double kStep = 1e-4;
    const double wanted = (8 * (loss_with(head, kStep) - loss_with(head, -kStep)) -
                           loss_with(head, 2 * kStep) + loss_with(head, -2 * kStep)) /
                          (12 * kStep);
    largest = std::max(largest, std::abs(wanted));
    difference = std::max(difference, std::abs(slope - wanted));
  }
  CHECK(largest > 1e-5);
  CHECK(difference <= 1e-6 * largest);
}

input::Sequence sequence_of(std::vector<std::int64_t> ids) {
  input::Sequence sequence;
  sequence.id = "0";
  sequence.ids = std::move(ids);
  return sequence;
}

}  // namespace

TEST_CASE("the gradient of the loss with respect to the z of each head equals that of PyTorch") {
  Pool pool(2);
  std::size_t cases = 0;
  for (const std::filesystem::path& file : test::goldens_of_models("interventions")) {
    Warnings warnings;
    const test::InterventionGolden one(file, warnings);
    CAPTURE(one.name);
    const input::Batch batch = test::batch_of(one.golden);
    const LossGradient got =
        loss_gradient(one.model, batch.sequences[0], one.scored.queries, one.scored.targets, pool);
    const std::vector<std::vector<double>> want = one.gradients();
    REQUIRE(got.d_z.size() == want.size());
    double largest = 0, difference = 0;
    for (std::size_t layer = 0; layer < want.size(); ++layer) {
      std::size_t at = 0;
      for (const OwnedMatrix<double>& head : got.d_z[layer]) {
        for (const double value : head.values()) {
          REQUIRE(at < want[layer].size());
          largest = std::max(largest, std::abs(want[layer][at]));
          if (!(std::abs(value - want[layer][at]) <= difference))
            difference = std::abs(value - want[layer][at]);
          ++at;
        }
      }
      CHECK(at == want[layer].size());
    }
    const double bound = one.model.config().position_in_scores() ? 1e-6 : 1e-8;
    CHECK(std::abs(got.loss - one.golden.array("loss").values.at(0)) <= bound);
    CHECK(difference / largest <= bound);
    ++cases;
  }
  CHECK(cases >= 81);
}

// Each model has mechanisms that a gradient passes through on its way from the last layers to the first.
TEST_CASE("the gradient of the loss equals central differences of the float64 pass") {
  const std::vector<std::int64_t> ids = {5, 9, 3, 7, 11, 2};
  // Clamped projections; sinks, clamped experts and a window; capped scores and logits; distance terms and a
  // convolution; attention that is linear.
  for (const std::string name : {"mpt", "gpt_oss", "gemma2", "deberta-v2", "qwen2_moe"}) {
    CAPTURE(name);
    check_by_differences(test::MemoryModel::golden(name).bound(), sequence_of(ids), 0);
  }
  // The residual stream itself is normalised, before the attention and before the MLP.
  check_by_differences(test::MemoryModel::golden("bloom")
                           .patched(R"({"apply_residual_connection_post_layernorm": true})")
                           .bound(),
                       sequence_of(ids), 0);
  const std::vector<std::size_t> layers = {1};
  for (const char* const kind : {"linear", "strided:2", "block:2"}) {
    CAPTURE(kind);
    const model::Model llama = test::MemoryModel::golden("llama").bound();
    check_by_differences(llama.with_attention(*model::parse_attention_kind(kind), layers), sequence_of(ids),
                         0);
  }
}

TEST_CASE("the gradient of the loss passes from the decoder to the encoder, and stops at hidden keys") {
  input::Sequence sequence = sequence_of({5, 9, 3, 7, 11, 2});
  sequence.target = std::make_shared<input::Sequence>(sequence_of({4, 8, 6, 3}));
  check_by_differences(test::MemoryModel::golden("t5").bound(), sequence, 0);
  sequence.key_visible = {1, 1, 0, 1, 1, 0};
  check_by_differences(test::MemoryModel::golden("bart").bound(), sequence, 0);
}

TEST_CASE("a loss gradient needs an output head and keys of the same sequence") {
  Pool pool(1);
  const std::vector<std::size_t> queries = {0};
  const std::vector<std::int64_t> targets = {1};
  CHECK_THROWS_AS((void)loss_gradient(test::MemoryModel::golden("bert-headless").bound(),
                                      sequence_of({5, 6, 7}), queries, targets, pool),
                  Error);
}

}  // namespace attnctl::reference
