#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "attnctl/input.hpp"
#include "attnctl/model.hpp"
#include "attnctl/observer.hpp"

namespace attn {

/// How far one step of a run is.
struct Progress {
  std::string step;       // "forward", "study", ...
  std::size_t done = 0;   // in units
  std::size_t total = 0;  // 0: unknown
  std::string unit;       // in the singular, such as "layer" or "byte"
};

/// Options of run() and of the other functions that compute: the selected heads, the number of threads, and
/// how to follow and to stop the work.
struct RunOptions {
  /// Empty: all heads; for an encoder-decoder model, only the encoder's heads if an input has no target.
  std::vector<Head> heads = {};
  std::size_t threads = 0;  // 0: all cores that this process may use
  /// Is called at the beginning of each step and then at most ten times per second, from any thread of the
  /// run, by one thread at a time. If it throws, the run stops and throws the same exception. May be empty.
  std::function<void(const Progress& progress)> progress = {};
  /// After a stop is requested, the run ends soon with Error(interrupted).
  std::stop_token stop = {};
};

/// Runs the batch through its model in float32, up to the last selected layer, and passes the pattern of each
/// selected head to each observer. Another number of threads can change the last digits. Throws Error(usage)
/// if a selected head does not exist, and Error(bad_input) if the model cannot compute the selected heads:
/// for example, if a `decoder` or `cross` head is selected and an input has no target, or if a layer before
/// the last selected one has no values (W_V). Throws Error(environment) if the BLAS library or a weight
/// cannot be read, Error(limit) if not all threads can be started or the BLAS library cannot get enough
/// memory, Error(interrupted) after a stop, and std::bad_alloc. Also throws the exceptions of the observers.
void run(const Batch& batch, std::span<Observer* const> observers, const RunOptions& options = {});
void run(const Batch& batch, Observer& observer, const RunOptions& options = {});

}  // namespace attn
