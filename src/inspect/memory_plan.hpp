#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "analysis/weights/weights.hpp"
#include "forward/footprint.hpp"
#include "forward/run.hpp"

// Fits the work into --memory before it starts.
namespace attnctl::inspect {

/// Memory of a run in bytes, in addition to the memory of the process before its work.
struct WorkBytes {
  std::uint64_t kept = 0;  // results and observers
  PassFootprint pass;
  std::uint64_t weights_resident = 0;  // weights that the analyses use, if they stay in memory
  std::uint64_t weights_streamed = 0;  // the same weights, if each layer is evicted after use
};

/// How the weights are held in memory.
struct Streaming {
  bool on = false;       // evict the weights of each layer after use
  std::size_t rows = 0;  // RunContext::streamed_rows; 0 if `on` is false
};

/// Keeps the weights in memory if they fit into `limit` bytes, or if the limit is 0 (none). Throws
/// Error(limit) if the work does not fit even with eviction. The error names the smallest sufficient value of
/// --memory.
[[nodiscard]] Streaming plan_memory(std::uint64_t limit, const WorkBytes& work);

/// Returns the memory of a forward pass with these observers, including the data that they keep.
[[nodiscard]] WorkBytes pass_bytes(const Model& model, const Batch& batch, const Selection& selection,
                                   std::span<Observer* const> observers, const RunContext& context);

/// Adds the memory of analyze_weights() and of its results. Counts options.directions even if none are kept.
void add_weights_bytes(const Model& model, const Selection& selection, const WeightsOptions& options,
                       std::size_t threads, WorkBytes& work);

/// Returns the memory of run_reference for all inputs, with its results in float64 and the weights in
/// float32.
[[nodiscard]] WorkBytes reference_bytes(const Model& model, const Batch& batch, bool logits,
                                        std::size_t threads);

/// Returns the memory of analyses that compare the factors of all selected heads at once: the weights, and a
/// copy of them in double.
[[nodiscard]] std::uint64_t factors_bytes(const Model& model, const Selection& selection);

}  // namespace attnctl::inspect
