#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "input/batch.hpp"
#include "model/config/config.hpp"

namespace attnctl {

/// Returns whether layers of this component work on the target of an input.
[[nodiscard]] inline bool needs_target(Component component) {
  return component == Component::decoder || component == Component::cross;
}

/// The sequences that give a layer its queries and its keys: the input gives both, its target gives both, or
/// (cross-attention) the target gives the queries and the input the keys.
struct Sides {
  const Sequence& queries_of;
  const Sequence& keys_of;  // also gives the masks

  [[nodiscard]] std::size_t queries() const { return queries_of.queries(); }
  [[nodiscard]] std::size_t keys() const { return keys_of.keys(); }
  /// Returns whether position i of the queries is position i of the keys.
  [[nodiscard]] bool same() const { return &queries_of == &keys_of && keys_of.key_embeddings.rows() == 0; }
  /// Returns the tokens of the keys; none if the sequence has separate keys.
  [[nodiscard]] std::span<const std::string> key_tokens() const {
    return keys_of.key_embeddings.rows() == 0 ? std::span(keys_of.tokens) : std::span<const std::string>();
  }
};

/// Returns the sides of a sequence in a component. Throws std::logic_error if it lacks the target it needs.
[[nodiscard]] Sides sides_of(Component component, const Sequence& sequence);

namespace forward {

/// The rows of one sequence in the matrices of a block.
struct BlockSequence {
  std::size_t index = 0;  // of the sequence in the batch
  std::size_t first_query = 0, queries = 0;
  std::size_t first_key = 0, keys = 0;
};

/// Consecutive sequences whose rows are stacked, so that they share products. A sequence with separate keys
/// or values has a block for itself; in other blocks the key rows are the query rows. In the decoder the rows
/// are those of the targets; in cross-attention the key rows are those of the inputs.
struct Block {
  Component component = Component::none;
  std::vector<BlockSequence> sequences;
  std::size_t rows = 0;      // of queries
  std::size_t key_rows = 0;  // of keys
};

/// Cuts a batch into blocks of up to `packed_rows` rows; a longer sequence gets its own block. The cut
/// depends only on the batch.
[[nodiscard]] std::vector<Block> cut_into_blocks(const Batch& batch, std::size_t packed_rows);

/// Returns the block of the same sequences in another component of the model.
[[nodiscard]] Block in_component(const Block& block, Component component, const Batch& batch);

}  // namespace forward
}  // namespace attnctl
