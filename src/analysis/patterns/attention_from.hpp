#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "forward/observer.hpp"
#include "forward/run.hpp"

namespace attnctl {

/// What does this word look at? Words are the positions of their pieces (input/token_query.hpp).
struct AttentionQuestion {
  std::size_t sequence = 0;                  // in the batch
  std::vector<std::size_t> from;             // the query word: rows of its pieces are averaged
  std::vector<std::vector<std::size_t>> to;  // named key words: weights of a word's pieces are summed
  std::size_t top = 5;                       // how many of the strongest keys
};

struct KeyWeight {
  std::size_t key = 0;
  float weight = 0;
};

/// One head's answer.
struct AttentionAnswer {
  std::size_t question = 0;
  HeadId head;
  std::vector<float> weights;            // [m] of the query word; empty: undefined, it sees no key
  std::vector<KeyWeight> top;            // strongest first, of equal ones the lower key
  std::vector<std::optional<float>> to;  // one a named word
};

/// The strongest `count` keys of a row, strongest first, of equal ones the lower key; NaN is never strong.
[[nodiscard]] std::vector<KeyWeight> strongest(std::span<const float> weights, std::size_t count);

/// Collects the rows of the queries that were asked about (Clark et al. 2019: attention from a
/// word is the mean over its pieces, attention to a word the sum over its pieces). Pieces whose row is fully
/// masked are left out of the mean.
class AttentionFrom final : public Observer {
 public:
  AttentionFrom(const Selection& selection, std::vector<AttentionQuestion> questions);

  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

  /// By question, then in the order of the selection.
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

/// The mean of the answers of a layer's heads: what one head in their place would show. All of one question;
/// heads without weights are left out.
[[nodiscard]] AttentionAnswer mean_of(std::span<const AttentionAnswer> answers,
                                      const AttentionQuestion& question);

}  // namespace attnctl
