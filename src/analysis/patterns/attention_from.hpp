#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "forward/run.hpp"

namespace attnctl::analysis {

/// What does one query word of an input attend to? A word is a list of token positions (input/words.hpp).
struct AttentionQuestion {
  std::size_t sequence = 0;                  // index in the batch
  std::vector<std::size_t> from;             // tokens of the query word; their rows are averaged
  std::vector<std::vector<std::size_t>> to;  // tokens of each key word; their weights are summed
  std::size_t top = 5;                       // maximum number of strongest keys to return
  std::vector<std::string> to_texts = {};    // the words of `to`, for the output
};

struct KeyWeight {
  std::size_t key = 0;  // position among the keys
  float weight = 0;
};

/// The answer of one head to one question.
struct AttentionAnswer {
  std::size_t question = 0;  // index of the question
  model::HeadId head;
  std::vector<float> weights;  // [m], weights of the query word; empty if all its rows are fully masked
  std::vector<KeyWeight> top;  // largest weight first; equal weights: lower key first
  /// Weight on each word of AttentionQuestion::to. nullopt if `weights` is empty.
  std::vector<std::optional<float>> to;
};

/// Returns up to `count` keys with the largest weights, in the order of AttentionAnswer::top. Skips NaN.
[[nodiscard]] std::vector<KeyWeight> strongest(std::span<const float> weights, std::size_t count);

/// The sum of some rows of a pattern.
struct SummedRow {
  std::vector<double> sum;  // [m]; may be empty if there are no rows
  std::size_t count = 0;    // number of rows
};

/// Answers questions about single words. Averages the pattern rows of the tokens of a query word, except
/// fully masked rows, and sums the weights on the tokens of a key word (Clark et al. 2019).
class AttentionFrom final : public forward::Observer {
 public:
  AttentionFrom(const forward::Selection& selection, std::vector<AttentionQuestion> questions)
      : heads_(selection.heads), questions_(std::move(questions)) {}

  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override;
  void begin(const model::Model& /*model*/, const input::Batch& /*batch*/) override {
    rows_.assign(questions_.size() * heads_.size(), {});
  }
  void panel(const forward::AttentionPanel& panel) override;

  /// Returns the answers sorted by question, then in selection order.
  [[nodiscard]] std::vector<AttentionAnswer> finish() const;

 private:
  std::vector<model::HeadId> heads_;
  std::vector<AttentionQuestion> questions_;
  std::vector<SummedRow> rows_;  // [questions, heads]
};

/// Returns the mean of the answers of several heads. Its `head` is not set. Skips answers without weights.
[[nodiscard]] AttentionAnswer mean_of(std::span<const AttentionAnswer> answers,
                                      const AttentionQuestion& question);

}  // namespace attnctl::analysis
