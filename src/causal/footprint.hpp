#pragma once

#include <cstddef>
#include <cstdint>

#include "base/numbers.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

// The memory of passes with interventions and of gradients.
namespace attnctl::causal {

/// RunContext::streamed_rows for passes that keep the weights of one layer at a time: as many rows as
/// CausalPass::run() computes together.
inline constexpr std::size_t kStreamedRows = 4096;

/// Estimated upper bounds, in bytes, of the memory of CausalPass, its run() and loss_gradients() for a batch.
struct CausalFootprint {
  std::uint64_t kept = 0;              // recorded values, predictions and gradients
  std::uint64_t buffers = 0;           // of the largest pass
  std::uint64_t resident_weights = 0;  // of all layers
  std::uint64_t streamed_weights = 0;  // of one layer, with RunContext::streamed_rows = kStreamedRows

  [[nodiscard]] std::uint64_t streamed() const { return saturating_sum(kept, buffers, streamed_weights); }
};

/// Makes the estimate. `scored` is the number of queries in ScoredQueries of all sequences; `mlps` is
/// CausalPass::Input::mlps; `threads` is the number of threads of RunContext::pool.
[[nodiscard]] CausalFootprint causal_footprint(const model::Model& model, const input::Batch& batch,
                                               std::size_t scored, bool mlps, std::size_t threads);

/// Returns the bytes of the values that record() keeps of a batch.
[[nodiscard]] std::uint64_t recorded_bytes(const model::ModelConfig& config, const input::Batch& batch,
                                           bool mlps);

}  // namespace attnctl::causal
