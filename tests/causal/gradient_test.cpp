#include "causal/gradient.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "reference/reference.hpp"
#include "support/intervention_golden.hpp"
#include "support/memory_checkpoint.hpp"

namespace attnctl::causal {
namespace {

/// The largest difference of two gradients, and the largest element of the second one.
struct GradientDifference {
  double difference = 0, largest = 0;

  void add(double got, double want) {
    if (!(std::abs(got - want) <= difference)) difference = std::abs(got - want);
    largest = std::max(largest, std::abs(want));
  }
};

/// Random texts with these numbers of tokens. In encoder-decoder models, their targets have half as many
/// tokens and one more. All queries but the last of a text, or of its target, predict the next token.
struct RandomTexts {
  input::Batch batch;
  std::vector<ScoredQueries> scored;

  RandomTexts(const model::Model& model, const std::vector<std::size_t>& lengths) {
    Random random(7);
    const auto ids_of = [&](std::size_t length) {
      std::vector<std::int64_t> ids;
      for (std::size_t i = 0; i < length; ++i)
        ids.push_back(static_cast<std::int64_t>(random.next() % model.config().embedding.vocabulary));
      return ids;
    };
    for (const std::size_t length : lengths) {
      input::Sequence& sequence = batch.sequences.emplace_back();
      sequence.id = std::to_string(batch.sequences.size() - 1);
      sequence.ids = ids_of(length);
      if (model.config().decoder) {
        sequence.target = std::make_shared<input::Sequence>();
        sequence.target->ids = ids_of(length / 2 + 1);
      }
      const std::vector<std::int64_t>& predicted = sequence.target ? sequence.target->ids : sequence.ids;
      ScoredQueries& of_sequence = scored.emplace_back();
      for (std::size_t i = 0; i + 1 < predicted.size(); ++i) {
        of_sequence.queries.push_back(i);
        of_sequence.targets.push_back(predicted[i + 1]);
      }
    }
  }
};

/// Adds the differences of all heads of a sequence.
void compare(const model::ModelConfig& config, const HeadGradients& got,
             const std::vector<std::vector<OwnedMatrix<double>>>& want, GradientDifference& difference) {
  REQUIRE(got.d_z.size() == want.size());
  for (std::size_t layer = 0; layer < want.size(); ++layer) {
    const std::size_t width = config.layers[layer].attention.d_value;
    REQUIRE(got.d_z[layer].cols() == want[layer].size() * width);
    REQUIRE(got.d_z[layer].rows() == want[layer][0].rows());
    for (std::size_t head = 0; head < want[layer].size(); ++head) {
      for (std::size_t r = 0; r < want[layer][head].rows(); ++r) {
        for (std::size_t c = 0; c < width; ++c)
          difference.add(double{got.d_z[layer](r, head * width + c)}, want[layer][head](r, c));
      }
    }
  }
}

/// Returns the differences of loss gradients between the passes in float32 and float64.
GradientDifference difference_of(const model::Model& model, const RandomTexts& texts,
                                 forward::RunContext& context) {
  const std::vector<RecordedSequence> recorded = record(model, texts.batch, false, context);
  const std::vector<HeadGradients> got = loss_gradients(model, texts.batch, texts.scored, recorded, context);
  REQUIRE(got.size() == texts.batch.sequences.size());
  GradientDifference difference;
  for (std::size_t s = 0; s < got.size(); ++s) {
    const ScoredQueries& scored = texts.scored[s];
    if (scored.queries.empty()) continue;
    const reference::LossGradient want = reference::loss_gradient(
        model, texts.batch.sequences[s], scored.queries, scored.targets, context.pool);
    compare(model.config(), got[s], want.d_z, difference);
  }
  return difference;
}

TEST_CASE("gradients of the loss in float32 equal those of PyTorch") {
  Pool pool(2);
  Warnings warnings;
  forward::RunContext context{.pool = pool, .warnings = warnings};
  std::size_t cases = 0;
  for (const std::filesystem::path& file : test::goldens_of_models("interventions")) {
    const test::InterventionGolden one(file, warnings);
    CAPTURE(one.name);
    const input::Batch batch = test::batch_of(one.golden);
    const std::vector<ScoredQueries> scored = {one.scored};
    const std::vector<RecordedSequence> recorded = record(one.model, batch, false, context);
    const HeadGradients got = loss_gradients(one.model, batch, scored, recorded, context).at(0);
    const std::vector<std::vector<double>> want = one.gradients();
    REQUIRE(got.d_z.size() == want.size());
    GradientDifference difference;
    for (std::size_t layer = 0; layer < want.size(); ++layer) {
      const std::size_t width = one.model.config().layers[layer].attention.d_value;
      const OwnedMatrix<float>& d_z = got.d_z[layer];
      REQUIRE(d_z.values().size() == want[layer].size());
      for (std::size_t r = 0; r < d_z.rows(); ++r) {
        for (std::size_t c = 0; c < d_z.cols(); ++c)  // the golden has [heads, n, v]
          difference.add(double{d_z(r, c)}, want[layer][(c / width * d_z.rows() + r) * width + c % width]);
      }
    }
    CHECK(difference.difference <= std::max(1e-4 * difference.largest, one.float32_difference()));
    ++cases;
  }
  CHECK(cases >= 81);
}

TEST_CASE("gradients of a batch of long random texts equal those in float64") {
  Pool pool(2);
  Warnings warnings;
  // Panels and Blocks that are smaller than the texts; texts of several lengths in one Block.
  for (const std::string name : {"tiny-llama", "tiny-bert"}) {
    CAPTURE(name);
    const model::Model model = test::bind_model(ATTNCTL_SOURCE_DIR "/data/" + name, warnings);
    RandomTexts texts(model, {60, 1, 37, 5});
    texts.batch.sequences[2].key_visible.assign(37, 1);
    for (const std::size_t hidden : {0UL, 3UL, 20UL, 36UL}) texts.batch.sequences[2].key_visible[hidden] = 0;
    for (const std::size_t streamed : {0UL, 50UL}) {
      forward::RunContext context{
          .pool = pool, .warnings = warnings, .panel_rows = 16, .packed_rows = 64, .streamed_rows = streamed};
      const GradientDifference difference = difference_of(model, texts, context);
      CHECK(difference.largest > 1e-3);
      CHECK(difference.difference <= 1e-4 * difference.largest);
    }
  }
}

TEST_CASE("gradients pass through every kind of attention, and through several mechanisms in a batch") {
  Pool pool(2);
  Warnings warnings;
  forward::RunContext context{.pool = pool, .warnings = warnings, .panel_rows = 5};
  const std::vector<std::size_t> layers = {0, 1};
  for (const char* const kind : {"linear", "strided:3", "block:4", "window:2"}) {
    CAPTURE(kind);
    const model::Model llama = test::MemoryModel::golden("llama").bound();
    const model::Model model = llama.with_attention(*model::parse_attention_kind(kind), layers);
    const GradientDifference difference = difference_of(model, RandomTexts(model, {9, 12}), context);
    CHECK(difference.difference <= 1e-4 * difference.largest);
  }
  for (const std::string name : {"deberta-v2", "gpt_oss", "qwen2_moe", "modernbert", "mpt", "gemma2"}) {
    CAPTURE(name);
    const model::Model model = test::MemoryModel::golden(name).bound();
    const GradientDifference difference = difference_of(model, RandomTexts(model, {9, 12, 3}), context);
    CHECK(difference.difference <= 1e-4 * difference.largest);
  }
  // The residual stream itself is normalised, before the attention and before the MLP.
  const model::Model stream = test::MemoryModel::golden("bloom")
                                  .patched(R"({"apply_residual_connection_post_layernorm": true})")
                                  .bound();
  REQUIRE(stream.config().layers[1].place == model::NormPlace::stream);
  const GradientDifference difference = difference_of(stream, RandomTexts(stream, {9, 12}), context);
  CHECK(difference.difference <= 1e-4 * difference.largest);
}

TEST_CASE("gradients pass from the targets of a batch to the inputs, except to hidden keys") {
  Pool pool(2);
  Warnings warnings;
  for (const std::string name : {"t5", "bart"}) {
    CAPTURE(name);
    const model::Model model = test::MemoryModel::golden(name).bound();
    RandomTexts texts(model, {9, 12, 4});
    texts.batch.sequences[1].key_visible = {1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 1};
    for (const std::size_t streamed : {0UL, 30UL}) {
      forward::RunContext context{
          .pool = pool, .warnings = warnings, .panel_rows = 3, .packed_rows = 16, .streamed_rows = streamed};
      const GradientDifference difference = difference_of(model, texts, context);
      CHECK(difference.largest > 1e-5);
      CHECK(difference.difference <= 1e-4 * difference.largest);
    }
  }
}

TEST_CASE("the gradient of a logit difference is the difference of the gradients of two logits") {
  Pool pool(2);
  Warnings warnings;
  forward::RunContext context{.pool = pool, .warnings = warnings};
  const model::Model model = test::bind_model(ATTNCTL_SOURCE_DIR "/data/tiny-llama", warnings);
  RandomTexts texts(model, {12, 8});
  texts.scored[0].answer = 9;
  const AnswerTokens answer{17, 41};
  const std::vector<RecordedSequence> recorded = record(model, texts.batch, false, context);
  const std::vector<HeadGradients> got =
      difference_gradients(model, texts.batch, texts.scored, answer, recorded, context);
  REQUIRE(got.size() == 2);
  const auto of_token = [&](std::int64_t token) {
    return reference::logit_gradient(model, texts.batch.sequences[0], 9, static_cast<std::size_t>(token),
                                     pool);
  };
  const reference::LogitGradient right = of_token(answer.right), wrong = of_token(answer.wrong);
  std::vector<std::vector<OwnedMatrix<double>>> want;
  for (std::size_t layer = 0; layer < right.layers.size(); ++layer) {
    std::vector<OwnedMatrix<double>>& heads = want.emplace_back();
    for (std::size_t head = 0; head < right.layers[layer].size(); ++head) {
      OwnedMatrix<double>& d = heads.emplace_back(right.layers[layer][head].d_z);
      for (std::size_t i = 0; i < d.values().size(); ++i)
        d.values()[i] -= wrong.layers[layer][head].d_z.values()[i];
    }
  }
  GradientDifference difference;
  compare(model.config(), got[0], want, difference);
  CHECK(difference.largest > 1e-3);
  CHECK(difference.difference <= 1e-4 * difference.largest);
  for (const OwnedMatrix<float>& d_z : got[1].d_z) {
    for (const float value : d_z.values()) CHECK(value == 0);
  }
}

TEST_CASE("gradients need an output head and keys of the same sequence") {
  Pool pool(1);
  Warnings warnings;
  forward::RunContext context{.pool = pool, .warnings = warnings};
  const auto refusal = [&](const model::Model& model, const input::Batch& batch) -> std::string {
    try {
      (void)loss_gradients(model, batch, {}, {}, context);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  input::Batch batch;
  batch.sequences.emplace_back().ids = {1, 2, 3};
  CHECK(refusal(test::MemoryModel::golden("bert-headless").bound(), batch).find("without an output head") !=
        std::string::npos);
  batch.sequences[0].key_embeddings = OwnedMatrix<float>(2, 24);
  CHECK(refusal(test::MemoryModel::golden("llama").bound(), batch).find("separate keys or values") !=
        std::string::npos);
}

}  // namespace
}  // namespace attnctl::causal
