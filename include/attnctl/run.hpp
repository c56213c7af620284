#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "attnctl/input.hpp"
#include "attnctl/model.hpp"
#include "attnctl/observer.hpp"

namespace attn {

/// The heads and threads of a run.
struct RunOptions {
  std::vector<Head> heads = {};  // empty: all; without targets only those of the encoder
  std::size_t threads = 0;       // 0: all cores that this process may use
};

/// Runs the batch through its model in float32, up to the last selected layer, and passes the pattern of each
/// selected head to each observer. Results do not depend on the number of threads. Throws Error(usage) if a
/// selected head does not exist, Error(bad_input) if a head needs a target that an input does not have,
/// Error(environment) if the BLAS library cannot be loaded, Error(limit) if there is too little memory for
/// it, std::bad_alloc, and what an observer throws.
void run(const Batch& batch, std::span<Observer* const> observers, const RunOptions& options = {});
void run(const Batch& batch, Observer& observer, const RunOptions& options = {});

}  // namespace attn
