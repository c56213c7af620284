#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "reference/reference.hpp"
#include "support/golden.hpp"
#include "support/memory_checkpoint.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::reference {
namespace {

const std::string kGolden = ATTNCTL_SOURCE_DIR "/tests/golden/";

/// Returns the largest difference between values and `want` [first, first + size), relative to the largest
/// value of all of `want`.
double relative_difference(std::span<const double> values, const std::vector<double>& want,
                           std::size_t first) {
  REQUIRE(first + values.size() <= want.size());
  double largest = 0;
  for (const double value : want) largest = std::max(largest, std::abs(value));
  double difference = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    difference = std::max(difference, std::abs(values[i] - want[first + i]));
  return difference / largest;
}

// Post-norm with token types and hidden keys; narrow embeddings and shared layers; pre-norm with a tied head;
// no scale and relu; rotary (its angles in float32), gated, few key/value heads; tanh gelu;
// normalised queries and keys; positions that skip padding.
TEST_CASE("the gradient of a logit to heads and tokens equals that of torch.autograd") {
  for (const std::string name :
       {"bert", "albert", "gpt2", "gpt2-unscaled", "llama", "llama-f16", "qwen3", "roberta"}) {
    CAPTURE(name);
    const test::Golden inputs(kGolden + name);
    const test::Golden want(kGolden + "experiments/" + name);
    const model::Model model = test::MemoryModel::golden(name).bound();
    Pool pool(2);
    for (std::size_t i = 0; i < inputs.inputs(); ++i) {
      CAPTURE(i);
      const std::string suffix = "_" + std::to_string(i);
      const auto position = static_cast<std::size_t>(want.integers("position" + suffix).at(0));
      const LogitGradient got = logit_gradient(model, inputs.sequence(i), position, {}, pool);
      CHECK(static_cast<std::int64_t>(got.token) == want.integers("token" + suffix).at(0));
      CHECK(got.logit == doctest::Approx(want.array("logit" + suffix).values.at(0)).epsilon(1e-7));
      const test::GoldenArray d_z = want.array("d_z" + suffix);
      std::size_t at = 0;
      for (const auto& layer : got.layers) {
        for (const HeadLogitGradient& head : layer) {
          CHECK(relative_difference(head.d_z.values(), d_z.values, at) < 1e-6);
          at += head.d_z.values().size();
        }
      }
      CHECK(at == d_z.values.size());
      const std::vector<double> d_embedding = want.array("d_embedding" + suffix).values;
      CHECK(got.d_embedding.values().size() == d_embedding.size());
      CHECK(relative_difference(got.d_embedding.values(), d_embedding, 0) < 1e-6);
      CHECK(relative_difference(got.embedding.values(), want.array("embedding" + suffix).values, 0) < 1e-6);
    }
  }
}

TEST_CASE("the logit of a given token equals the reference, and attributions are inner products") {
  const test::Golden inputs(kGolden + "llama");
  const model::Model model = test::MemoryModel::golden("llama").bound();
  const input::Sequence sequence = inputs.sequence(1);
  Pool pool(1);
  const ReferencePass pass = run_reference(model, sequence, 1, true, pool);
  const LogitGradient gradient = logit_gradient(model, sequence, 2, 7, pool);
  CHECK(gradient.token == 7);
  CHECK(gradient.logit == doctest::Approx(pass.logits(2, 7)).epsilon(1e-12));
  const model::HeadId head{1, 4};
  const textbook::LogitAttribution result = textbook::attribute(gradient, {{head}});
  REQUIRE(result.heads.size() == 1);
  double along = 0;
  const HeadLogitGradient& of_head = gradient.layers[1][4];
  for (std::size_t i = 0; i < of_head.z.values().size(); ++i)
    along += of_head.z.values()[i] * of_head.d_z.values()[i];
  CHECK(result.heads[0].second.attribution == doctest::Approx(along));
  REQUIRE(result.embeddings.size() == sequence.ids.size());
  for (std::size_t j = 3; j < sequence.ids.size(); ++j)
    CHECK(result.embeddings[j].gradient == 0);  // causal: later tokens have no influence
  CHECK(result.embeddings[2].gradient > 0);
}

TEST_CASE("the embedding of a token that the model sets to zero has no gradient") {
  const model::Model model = test::MemoryModel::golden("esm-old").bound();
  input::Sequence sequence;
  sequence.ids = {5, 6, 7, 8};
  sequence.key_visible = {1, 1, 1, 0};
  Pool pool(1);
  const LogitGradient gradient = logit_gradient(model, sequence, 3, {}, pool);
  const auto norm_of = [&](std::size_t row) {
    double sum = 0;
    for (const double value : gradient.d_embedding.view().row(row)) sum += std::abs(value);
    return sum;
  };
  CHECK(norm_of(3) == 0);
  CHECK(norm_of(2) > 0);
}

TEST_CASE("gradients need an output head and keys of the same sequence") {
  Pool pool(1);
  const test::Golden headless(kGolden + "bert-headless");
  CHECK_THROWS_AS((void)logit_gradient(test::MemoryModel::golden("bert-headless").bound(),
                                       headless.sequence(0), 0, {}, pool),
                  Error);
  input::Sequence cross;
  cross.embeddings = OwnedMatrix<float>(2, 24);
  cross.key_embeddings = OwnedMatrix<float>(3, 24);
  CHECK_THROWS_AS((void)logit_gradient(test::MemoryModel::golden("llama").bound(), cross, 0, {}, pool),
                  Error);
}

}  // namespace
}  // namespace attnctl::reference
