#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/numbers.hpp"
#include "causal/footprint.hpp"
#include "forward/run.hpp"
#include "study/corpus.hpp"
#include "study/run_study.hpp"

// A study under --memory whose weights do not fit: each worker computes groups of blocks, one layer at a
// time.
namespace attnctl::study {

/// What the workers of a study may use of StudyInput::memory.
struct MemoryShares {
  forward::Needs needs = {};    // of all measures
  std::uint64_t of_worker = 0;  // bytes; 0: the weights of all layers stay in memory
  std::uint64_t used = 0;       // bytes that the process needs apart from the workers
  std::uint64_t usual = 0;      // bytes that a worker needs for a block of the usual length

  [[nodiscard]] bool one_layer_at_a_time() const { return of_worker > 0; }
};

/// Decides from the length of a usual block whether the weights of all layers stay in memory.
[[nodiscard]] MemoryShares share_memory(const StudyInput& input, std::size_t workers);

/// Returns the number of rows of a block in a layer, at least 1.
[[nodiscard]] std::size_t rows_of(const input::Batch& batch);

/// The memory that a worker needs for a block if it keeps the weights of one layer at a time.
struct BlockMemory {
  std::size_t rows = 1;
  std::size_t pass_rows = 0;  // largest number of rows that a layer computes at once
  std::uint64_t row = 0;      // bytes per row
  std::uint64_t fixed = 0;    // bytes apart from the rows, for a group of any size
  std::uint64_t kept = 0;     // MeasureMemory::block, and what the removal of heads needs beyond a pass

  /// Returns the bytes for a group of this block alone, without its state.
  [[nodiscard]] std::uint64_t bytes() const;
};

/// The memory that a pass over a block needs, and the block's part in that of a group.
struct BlockNeeds {
  forward::PassFootprint pass;
  causal::CausalFootprint causal;  // of the removal of heads, which ends before the pass begins
  std::uint64_t measures = 0;      // MeasureMemory::block of all measures
  BlockMemory memory;
};
[[nodiscard]] BlockNeeds needs_of(const StudyInput& input, const MemoryShares& shares,
                                  const input::Batch& batch);

/// A worker reads the weights of a layer for at least kFewestRows rows, if the memory suffices. More than
/// kMostRows would hardly save time, and an interrupt would lose more work.
inline constexpr std::size_t kFewestRows = 64, kMostRows = 2048;
/// The number of rows of a group while the length of the rest of the corpus is unknown.
inline constexpr std::size_t kUsualRows = kMostRows / 4;

/// Returns the largest number of rows of the next group, so that all workers have work until the end.
[[nodiscard]] inline std::size_t fair_rows(double rows_left, std::size_t workers) {
  const double share = rows_left / static_cast<double>(2 * workers);
  return static_cast<std::size_t>(std::clamp(share, double{kFewestRows}, double{kMostRows}));
}

/// The size of the blocks that a worker computes together.
class GroupSize {
 public:
  /// `state_bytes` is the size of the largest saved state of a block so far; 0 if no block was computed yet:
  /// the group then has one block.
  GroupSize(const MemoryShares& shares, std::uint64_t state_bytes, std::size_t most_rows)
      : of_worker_(shares.of_worker),
        state_bytes_(state_bytes),
        most_rows_(!shares.one_layer_at_a_time() || state_bytes == 0 ? 0 : most_rows) {}

  /// Adds a block. Returns false, and changes nothing, if the group must not have it. A group without blocks
  /// takes every block that fits into the memory.
  [[nodiscard]] bool add(const BlockMemory& block);
  [[nodiscard]] bool full() const { return all_.rows >= most_rows_; }
  /// The estimated memory of the worker in bytes.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint64_t of_worker_, state_bytes_;
  std::size_t most_rows_;
  std::size_t blocks_ = 0;
  BlockMemory all_{.rows = 0};
  std::uint64_t bytes_ = 0;
};

/// Throws the Error(limit) for a block that does not fit into the memory of a worker.
[[noreturn]] void refuse_block(const StudyInput& input, const MemoryShares& shares, std::size_t workers,
                               const CorpusBlock& block);

}  // namespace attnctl::study
