#include "forward/block.hpp"

#include <stdexcept>

namespace attnctl {

Sides sides_of(Component component, const Sequence& sequence) {
  if (!needs_target(component)) return {sequence, sequence};
  if (sequence.target == nullptr) throw std::logic_error("a decoder layer needs an input with a target");
  return {*sequence.target, component == Component::cross ? sequence : *sequence.target};
}

namespace forward {
namespace {

void append(Block& block, std::size_t index, const Sides& sides) {
  block.sequences.push_back({index, block.rows, sides.queries(), block.key_rows, sides.keys()});
  block.rows += sides.queries();
  block.key_rows += sides.keys();
}

}  // namespace

std::vector<Block> cut_into_blocks(const Batch& batch, std::size_t packed_rows) {
  std::vector<Block> blocks;
  bool open = false;  // the last block takes more sequences
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const Sequence& sequence = batch.sequences[i];
    const bool separate_keys = sequence.key_embeddings.rows() > 0 || sequence.value_embeddings.rows() > 0;
    if (!open || separate_keys || blocks.back().rows + sequence.queries() > packed_rows)
      blocks.emplace_back();
    append(blocks.back(), i, {sequence, sequence});
    open = !separate_keys;
  }
  return blocks;
}

Block in_component(const Block& block, Component component, const Batch& batch) {
  Block same;
  same.component = component;
  for (const BlockSequence& place : block.sequences)
    append(same, place.index, sides_of(component, batch.sequences[place.index]));
  return same;
}

}  // namespace forward
}  // namespace attnctl
