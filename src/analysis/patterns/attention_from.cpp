#include "analysis/patterns/attention_from.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/head_axes.hpp"
#include "forward/block.hpp"

namespace attnctl::analysis {
namespace {

/// Sets `top` and `to` of an answer from its `weights`.
void conclude(AttentionAnswer& answer, const AttentionQuestion& question) {
  answer.top = strongest(answer.weights, question.top);
  for (const std::vector<std::size_t>& word : question.to) {
    std::optional<float> weight;
    if (!answer.weights.empty()) {
      double sum = 0;
      for (const std::size_t key : word) sum += static_cast<double>(answer.weights.at(key));
      weight = static_cast<float>(sum);
    }
    answer.to.push_back(weight);
  }
}

}  // namespace

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

void AttentionFrom::begin(const model::Model& model, const input::Batch& batch) {
  rows_.assign(questions_.size() * heads_.size(), {});
  for (std::size_t q = 0; q < questions_.size(); ++q) {
    const input::Sequence& sequence = batch.sequences.at(questions_[q].sequence);
    for (std::size_t h = 0; h < heads_.size(); ++h) {
      const model::Component component = model.config().layers.at(heads_[h].layer).component;
      rows_[q * heads_.size() + h].sum.resize(forward::sides_of(component, sequence).keys());
    }
  }
}

void AttentionFrom::panel(const forward::AttentionPanel& panel) {
  const auto head = head_index(heads_, {panel.layer, panel.head});
  if (!head) return;
  for (std::size_t q = 0; q < questions_.size(); ++q) {
    if (questions_[q].sequence != panel.sequence) continue;
    SummedRow& row = rows_[q * heads_.size() + *head];
    for (const std::size_t query : questions_[q].from) {
      if (query < panel.first_query || query - panel.first_query >= panel.pattern.rows) continue;
      const std::size_t r = query - panel.first_query;
      if (!panel.fully_masked.empty() && panel.fully_masked[r] != 0) continue;
      const auto weights = panel.pattern.row(r);
      for (std::size_t key = panel.keys().first; key < panel.keys().last; ++key)
        row.sum[key] += static_cast<double>(weights[key]);
      ++row.count;
    }
  }
}

std::vector<AttentionAnswer> AttentionFrom::finish() const {
  std::vector<AttentionAnswer> answers;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const SummedRow& row = rows_[i];
    AttentionAnswer answer;
    answer.question = i / heads_.size();
    answer.head = heads_[i % heads_.size()];
    if (row.count > 0) {
      for (const double sum : row.sum) {
        answer.weights.push_back(static_cast<float>(sum / static_cast<double>(row.count)));
      }
    }
    conclude(answer, questions_[answer.question]);
    answers.push_back(std::move(answer));
  }
  return answers;
}

AttentionAnswer mean_of(std::span<const AttentionAnswer> answers, const AttentionQuestion& question) {
  std::vector<double> sum;
  std::size_t count = 0;
  for (const AttentionAnswer& answer : answers) {
    if (answer.weights.empty()) continue;
    sum.resize(answer.weights.size());
    std::transform(sum.begin(), sum.end(), answer.weights.begin(), sum.begin(),
                   [](double total, float weight) { return total + static_cast<double>(weight); });
    ++count;
  }
  AttentionAnswer mean;
  if (!answers.empty()) {
    mean.question = answers.front().question;
    mean.head.layer = answers.front().head.layer;
  }
  for (const double total : sum)
    mean.weights.push_back(static_cast<float>(total / static_cast<double>(count)));
  conclude(mean, question);
  return mean;
}

}  // namespace attnctl::analysis
