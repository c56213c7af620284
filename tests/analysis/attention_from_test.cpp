#include "analysis/patterns/attention_from.hpp"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/panels.hpp"

namespace attnctl::analysis {
namespace {

OwnedMatrix<float> matrix_of(const std::vector<std::vector<float>>& rows) {
  OwnedMatrix<float> matrix(rows.size(), rows[0].size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::copy(rows[r].begin(), rows[r].end(), matrix.view().row(r).begin());
  }
  return matrix;
}

TEST_CASE("the strongest keys, of equal ones the lower") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> weights{0.1F, nan, 0.3F, 0.1F, 0.3F, 0.2F};
  const auto keys = strongest(weights, 4);
  REQUIRE(keys.size() == 4);
  const std::vector<std::size_t> want{2, 4, 5, 0};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(keys[i].key == want[i]);
    CHECK(keys[i].weight == weights[want[i]]);
  }
  CHECK(strongest(weights, 99).size() == 5);
  CHECK(strongest(weights, 0).empty());
}

TEST_CASE("attention from a word is the mean of its rows, to a word the sum of its keys") {
  const model::Model model = test::open_golden("gpt2");
  input::Batch batch;
  batch.sequences.resize(2);
  for (input::Sequence& sequence : batch.sequences) sequence.ids.assign(4, 1);
  const forward::Selection selection{{{0, 1}, {1, 0}}};
  const std::vector<AttentionQuestion> questions{
      {.sequence = 1, .from = {2}, .to = {{0}, {1, 2}}, .top = 2},
      {.sequence = 1, .from = {1, 3}, .to = {{3}}, .top = 1},
      {.sequence = 0, .from = {0, 1}, .to = {{1, 0}}, .top = 9},
  };
  AttentionFrom observer(selection, questions);
  observer.begin(model, batch);
  const auto pattern =
      matrix_of({{1, 0, 0, 0}, {0.5F, 0.5F, 0, 0}, {0.25F, 0.25F, 0.5F, 0}, {0, 0, 0.25F, 0.75F}});
  const auto masked = matrix_of({{0, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}});
  for (std::size_t head = 0; head < 2; ++head) {
    forward::AttentionPanel where;
    where.sequence = 0;
    where.head = head;
    test::show(observer, where, masked.view(), 4);
    where.sequence = 1;
    test::show(observer, where, pattern.view(), 3);
  }
  const auto answers = observer.finish();
  REQUIRE(answers.size() == 6);

  CHECK(answers[0].head == model::HeadId{0, 1});
  REQUIRE(answers[0].top.size() == 2);
  CHECK(answers[0].top[0].key == 2);
  CHECK(answers[0].top[1].key == 0);
  CHECK(answers[0].to == std::vector<std::optional<float>>{0.25F, 0.75F});

  CHECK(answers[2].weights == std::vector<float>{0.25F, 0.25F, 0.125F, 0.375F});
  CHECK(answers[2].to == std::vector<std::optional<float>>{0.375F});

  // The mean over pieces 0 and 1 excludes piece 0, whose row is fully masked.
  CHECK(answers[4].weights == std::vector<float>{0, 1, 0, 0});
  CHECK(answers[4].to == std::vector<std::optional<float>>{1.0F});

  // No panel of head 1.0 was shown.
  CHECK(answers[1].weights.empty());
  CHECK(answers[1].top.empty());
  CHECK(answers[1].to == std::vector<std::optional<float>>{std::nullopt, std::nullopt});
}

TEST_CASE("the mean of a layer's heads is what one head in their place would show") {
  AttentionAnswer a;
  a.weights = {0.5F, 0.5F, 0};
  AttentionAnswer b;
  b.weights = {0, 0.25F, 0.75F};
  const AttentionAnswer undefined;
  AttentionQuestion question;
  question.to = {{0, 1}};
  question.top = 1;
  const AttentionAnswer mean = mean_of(std::vector{a, undefined, b}, question);
  CHECK(mean.weights == std::vector<float>{0.25F, 0.375F, 0.375F});
  CHECK(mean.top.at(0).key == 1);
  CHECK(mean.to.at(0) == 0.625F);
  CHECK_FALSE(mean_of(std::vector{undefined}, question).to.at(0).has_value());
}

}  // namespace
}  // namespace attnctl::analysis
