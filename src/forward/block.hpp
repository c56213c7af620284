#pragma once

#include <cstddef>
#include <vector>

#include "forward/sides.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"

namespace attnctl::forward {

/// A sequence inside a block: which rows of the block's matrices are its own.
struct Part {
  std::size_t sequence = 0;  // in the batch
  std::size_t first_query = 0, queries = 0;
  std::size_t first_key = 0, keys = 0;
};

/// Consecutive sequences that go through the products together, their rows stacked. A sequence that brings
/// keys or values of its own is a block alone; elsewhere the key rows are the query rows. In the decoder the
/// rows are those of the targets, and in cross-attention the key rows are those of the inputs.
struct Block {
  Component component = Component::none;  // none and encoder: of the inputs
  std::vector<Part> parts;
  std::size_t rows = 0;      // of queries
  std::size_t key_rows = 0;  // of keys
};

/// Cuts a batch into blocks of at most `packed_rows` rows; a longer sequence is a block of its own. The cut
/// depends on the batch alone.
[[nodiscard]] std::vector<Block> cut_into_blocks(const Batch& batch, std::size_t packed_rows);

/// The same sequences in another component of the model.
[[nodiscard]] Block in_component(const Block& block, Component component, const Batch& batch);

/// Keys or values come from elsewhere than the queries.
[[nodiscard]] bool is_cross_attention(const Sequence& sequence);

}  // namespace attnctl::forward
