#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cli/options/options.hpp"
#include "forward/footprint.hpp"
#include "forward/run.hpp"

// What --memory allows, decided before the work starts.
namespace attnctl::cli {

/// Bytes that a run takes beside what the process has before its work.
struct WorkBytes {
  std::uint64_t kept = 0;  // results and observers
  PassFootprint pass;
  std::uint64_t weights_resident = 0;  // analyses of weights, which stay in memory,
  std::uint64_t weights_streamed = 0;  // or are given back layer by layer
};

/// How weights are held.
struct Streaming {
  bool on = false;       // they are given back layer by layer
  std::size_t rows = 0;  // RunContext::streamed_rows; 0 where they are not
};

/// Weights stay where they fit, or where --memory is not given. Throws Error(limit), which names the smallest
/// figure that works, where the work does not fit either way.
[[nodiscard]] Streaming plan_memory(const RunOptions& run, const WorkBytes& work);

/// What a pass of these observers takes, and what they keep.
[[nodiscard]] WorkBytes pass_bytes(const Model& model, const Batch& batch, const Selection& selection,
                                   std::span<Observer* const> observers, const RunContext& context);

/// Adds what analyze_weights takes, and its results.
void add_weights_bytes(const Model& model, const Selection& selection, const SelectionOptions& options,
                       std::size_t threads, WorkBytes& work);

/// Returns the memory of run_reference for all inputs, with its results in float64 and the weights in
/// float32.
[[nodiscard]] WorkBytes reference_bytes(const Model& model, const Batch& batch, bool logits,
                                        std::size_t threads);

/// What analyses take that compare the selected heads' factors all at once: the weights, and a copy in
/// double.
[[nodiscard]] std::uint64_t factors_bytes(const Model& model, const Selection& selection);

}  // namespace attnctl::cli
