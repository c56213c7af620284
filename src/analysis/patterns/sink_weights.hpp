#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "forward/run.hpp"

namespace attnctl::analysis {

/// The weights that one head puts on single keys of one input. alpha_k is the mean weight on key k over the
/// queries that may attend to it (Gu et al. 2024). A value is nullopt without such queries, or if a weight of
/// the head is not finite.
struct HeadSink {
  std::size_t input = 0;  // index in the batch
  model::HeadId head;
  std::uint64_t rows = 0;                    // number of queries that can attend to at least one key
  std::optional<double> first_weight = {};   // alpha_0
  std::optional<double> null_weight = {};    // alpha_0 if each query gave equal weights to its visible keys
  std::optional<double> weight = {};         // the largest alpha_k, see `position`
  std::optional<std::size_t> position = {};  // its key k; of equal alphas, the first key
};

/// Computes a HeadSink of each selected head and input. The largest alpha_k is that of a key which at least
/// half as many queries may attend to as to the key with most queries. Without this rule, the last tokens of
/// a causal model, which only one or two queries may attend to, would have the largest alpha in many heads.
class SinkWeights final : public forward::Observer {
 public:
  explicit SinkWeights(const forward::Selection& selection) : heads_(selection.heads) {}

  [[nodiscard]] forward::Needs needs() const override { return {.scores = true}; }
  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override;
  void begin(const model::Model& model, const input::Batch& batch) override;
  void panel(const forward::AttentionPanel& panel) override;

  /// Returns the results sorted by input, then in selection order. Call once, after the pass.
  [[nodiscard]] std::vector<HeadSink> finish();

 private:
  /// The sums over the rows of one head in the current sequence.
  struct KeySums {
    std::size_t sequence = 0;
    std::uint64_t rows = 0;
    bool finite = true;
    double uniform = 0;                 // sum of 1 / visible keys of the queries that may attend to key 0
    std::vector<double> weights;        // [m], sum of the weights on each key
    std::vector<std::uint64_t> counts;  // [m], number of queries that may attend to it
  };

  void keep(std::size_t head);

  std::vector<model::HeadId> heads_;
  std::vector<KeySums> states_;  // [heads]
  std::vector<HeadSink> found_;  // [inputs, heads]
};

}  // namespace attnctl::analysis
