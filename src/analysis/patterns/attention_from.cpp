#include "analysis/patterns/attention_from.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "analysis/head_axes.hpp"

namespace attnctl::analysis {

/// Sets `weights`, `top` and `to` of an answer. `row` is the sum of the rows to average.
static void conclude(AttentionAnswer& answer, const SummedRow& row, const AttentionQuestion& question) {
  if (row.count > 0) {
    for (const double sum : row.sum)
      answer.weights.push_back(static_cast<float>(sum / static_cast<double>(row.count)));
  }
  answer.top = strongest(answer.weights, question.top);
  for (const std::vector<std::size_t>& word : question.to) {
    double sum = 0;
    if (!answer.weights.empty()) {
      for (const std::size_t key : word) sum += double{answer.weights.at(key)};
    }
    answer.to.push_back(answer.weights.empty() ? std::nullopt : std::optional(static_cast<float>(sum)));
  }
}

std::vector<KeyWeight> strongest(std::span<const float> weights, std::size_t count) {
  std::vector<KeyWeight> keys;
  for (std::size_t key = 0; key < weights.size(); ++key) {
    if (!std::isnan(weights[key])) keys.push_back({key, weights[key]});
  }
  const auto kept = keys.begin() + static_cast<std::ptrdiff_t>(std::min(count, keys.size()));
  std::partial_sort(keys.begin(), kept, keys.end(), [](const KeyWeight& a, const KeyWeight& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.key < b.key;
  });
  keys.erase(kept, keys.end());
  return keys;
}

std::uint64_t AttentionFrom::memory(const model::Model& /*model*/, const input::Batch& batch) const {
  std::uint64_t bytes = 0;
  for (const AttentionQuestion& question : questions_)
    bytes += heads_.size() * batch.sequences.at(question.sequence).keys() * sizeof(double);
  return bytes;
}

void AttentionFrom::panel(const forward::AttentionPanel& panel) {
  const auto head = head_index(heads_, {panel.layer, panel.head});
  if (!head) return;
  for (std::size_t q = 0; q < questions_.size(); ++q) {
    if (questions_[q].sequence != panel.sequence) continue;
    SummedRow& row = rows_[q * heads_.size() + *head];
    row.sum.resize(panel.pattern.cols);
    for (const std::size_t query : questions_[q].from) {
      if (query < panel.first_query || query - panel.first_query >= panel.pattern.rows) continue;
      const std::size_t r = query - panel.first_query;
      if (!panel.fully_masked.empty() && panel.fully_masked[r] != 0) continue;
      const auto weights = panel.pattern.row(r);
      for (std::size_t key = panel.keys().first; key < panel.keys().last; ++key)
        row.sum[key] += double{weights[key]};
      ++row.count;
    }
  }
}

std::vector<AttentionAnswer> AttentionFrom::finish() const {
  std::vector<AttentionAnswer> answers;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    AttentionAnswer& answer = answers.emplace_back();
    answer.question = i / heads_.size();
    answer.head = heads_[i % heads_.size()];
    conclude(answer, rows_[i], questions_[answer.question]);
  }
  return answers;
}

AttentionAnswer mean_of(std::span<const AttentionAnswer> answers, const AttentionQuestion& question) {
  SummedRow row;
  for (const AttentionAnswer& answer : answers) {
    if (answer.weights.empty()) continue;
    row.sum.resize(answer.weights.size());
    std::ranges::transform(row.sum, answer.weights, row.sum.begin(), std::plus<double>());
    ++row.count;
  }
  AttentionAnswer mean;
  conclude(mean, row, question);
  return mean;
}

}  // namespace attnctl::analysis
