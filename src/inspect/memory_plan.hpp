#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "analysis/weights/weights.hpp"
#include "forward/run.hpp"

// Estimates the memory of a run before the run starts, and chooses how to stay within --memory.
namespace attnctl::inspect {

/// Memory of a run, in bytes. Excludes the memory that the process already uses.
struct WorkBytes {
  std::uint64_t kept = 0;              // results and data of observers
  forward::PassFootprint pass;         // forward pass
  std::uint64_t weights_resident = 0;  // outside the pass: weights and work buffers, if all weights stay
  std::uint64_t weights_streamed = 0;  // the same, if each layer is evicted after its use
};

/// Decides whether the weights stay in memory or are evicted layer by layer. Returns
/// RunContext::streamed_rows, which is 0 if the weights stay. They stay if the work fits into `limit` bytes,
/// or if `limit` is 0 (no limit). Throws Error(limit) if the work does not fit even with eviction; the
/// message contains a sufficient value of --memory.
[[nodiscard]] std::size_t plan_memory(std::uint64_t limit, const WorkBytes& work);

/// Returns the memory of a forward pass with these observers, including the data that the observers keep.
[[nodiscard]] WorkBytes pass_bytes(const model::Model& model, const input::Batch& batch,
                                   const forward::Selection& selection,
                                   std::span<forward::Observer* const> observers,
                                   const forward::RunContext& context);

/// Adds the memory of analyze_weights() and its results to `work`. Counts `options.directions` directions for
/// each circuit of a head even if the output does not include directions.
void add_weights_bytes(const model::Model& model, const forward::Selection& selection,
                       const analysis::WeightsOptions& options, std::size_t threads, WorkBytes& work);

/// Returns the memory of causal::CausalPass, its run() and gradients. For the parameters, see
/// causal::causal_footprint().
[[nodiscard]] WorkBytes causal_bytes(const model::Model& model, const input::Batch& batch, std::size_t scored,
                                     bool mlps, std::size_t threads);

/// Returns the memory of run_reference for all inputs, with its float64 results and the float32 weights.
[[nodiscard]] WorkBytes reference_bytes(const model::Model& model, const input::Batch& batch, bool logits,
                                        std::size_t threads);

}  // namespace attnctl::inspect
