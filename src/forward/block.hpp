#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "input/batch.hpp"
#include "model/config/config.hpp"

namespace attnctl::forward {

/// Returns true if layers of this component process the target of a sequence.
[[nodiscard]] inline bool needs_target(model::Component component) {
  return component == model::Component::decoder || component == model::Component::cross;
}

/// The sequences from which a layer computes its queries and its keys. In an encoder or a single stack both
/// are the input. In a decoder both are the target. In cross-attention the queries belong to the target and
/// the keys to the input.
struct Sides {
  const input::Sequence& queries_of;
  const input::Sequence& keys_of;  // the masks of this sequence apply

  [[nodiscard]] std::size_t queries() const { return queries_of.queries(); }
  [[nodiscard]] std::size_t keys() const { return keys_of.keys(); }
  /// Returns the token strings of the keys. Empty if there are none, or if the keys have separate embeddings.
  [[nodiscard]] std::span<const std::string> key_tokens() const {
    return keys_of.key_embeddings.rows() == 0 ? std::span(keys_of.tokens) : std::span<const std::string>();
  }
};

/// Returns the sequences of queries and keys for a component. Throws std::logic_error if the component needs
/// a target and the sequence has none.
[[nodiscard]] Sides sides_of(model::Component component, const input::Sequence& sequence);

/// The rows that belong to one sequence in the matrices of a Block.
struct BlockSequence {
  std::size_t index = 0;  // index of the sequence in the batch
  std::size_t first_query = 0, queries = 0;
  std::size_t first_key = 0, keys = 0;
};

/// A group of consecutive sequences (not a transformer block). Their rows are stacked in one matrix, so that
/// one matrix product computes all of them. A sequence with separate keys or values is a separate Block. In
/// all other Blocks of self-attention, key rows and query rows are the same. In the decoder the rows belong
/// to the targets. In cross-attention the query rows belong to the targets and the key rows to the inputs.
struct Block {
  model::Component component = model::Component::none;
  std::vector<BlockSequence> sequences;
  std::size_t rows = 0;      // number of query rows
  std::size_t key_rows = 0;  // number of key rows
};

/// Divides the inputs of a batch into Blocks of up to `packed_rows` query rows, in the encoder and in the
/// decoder. A sequence with more rows, or with separate keys or values, is a separate Block.
[[nodiscard]] std::vector<Block> cut_into_blocks(const input::Batch& batch, std::size_t packed_rows,
                                                 std::span<const std::size_t> starts = {});

/// Returns a Block with the same sequences and the rows that they have in another component of the model.
[[nodiscard]] Block in_component(const Block& block, model::Component component, const input::Batch& batch);

}  // namespace attnctl::forward
