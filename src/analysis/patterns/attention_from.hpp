#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "forward/observer.hpp"
#include "forward/run.hpp"

namespace attnctl {

/// A question about the attention from one word. A word is the list of its token positions
/// (input/words.hpp).
struct AttentionQuestion {
  std::size_t sequence = 0;                  // index in the batch
  std::vector<std::size_t> from;             // the query word; rows of its pieces are averaged
  std::vector<std::vector<std::size_t>> to;  // named key words; weights of a word's pieces are summed
  std::size_t top = 5;                       // number of strongest keys to return
};

struct KeyWeight {
  std::size_t key = 0;
  float weight = 0;
};

/// The answer of one head.
struct AttentionAnswer {
  std::size_t question = 0;
  HeadId head;
  std::vector<float> weights;            // [m], for the query word; empty if it sees no key
  std::vector<KeyWeight> top;            // strongest first; ties: lower key first
  std::vector<std::optional<float>> to;  // one per named word
};

/// Returns the `count` strongest keys of a row, strongest first. Ties are sorted by key. Skips NaN.
[[nodiscard]] std::vector<KeyWeight> strongest(std::span<const float> weights, std::size_t count);

/// Collects the pattern rows of the queries in the questions. Attention from a word is the mean over its
/// pieces, and attention to a word is the sum over its pieces (Clark et al. 2019). Fully masked pieces are
/// excluded from the mean.
class AttentionFrom final : public Observer {
 public:
  AttentionFrom(const Selection& selection, std::vector<AttentionQuestion> questions);

  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

  /// Returns the answers sorted by question, then in selection order.
  [[nodiscard]] std::vector<AttentionAnswer> finish() const;

 private:
  struct Row {
    std::vector<double> sum;  // [m]
    std::size_t count = 0;
  };
  std::vector<HeadId> heads_;
  std::vector<AttentionQuestion> questions_;
  std::vector<Row> rows_;  // [questions, heads]
};

/// Returns the mean of the answers of a layer's heads. All answers must belong to `question`. Heads without
/// weights are excluded.
[[nodiscard]] AttentionAnswer mean_of(std::span<const AttentionAnswer> answers,
                                      const AttentionQuestion& question);

}  // namespace attnctl
