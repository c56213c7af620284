#include "forward/block.hpp"

namespace attnctl::forward {
namespace {

void append(Block& block, std::size_t sequence, const Sides& sides) {
  block.parts.push_back({sequence, block.rows, sides.queries(), block.key_rows, sides.keys()});
  block.rows += sides.queries();
  block.key_rows += sides.keys();
}

}  // namespace

bool is_cross_attention(const Sequence& sequence) {
  return sequence.key_embeddings.rows() > 0 || sequence.value_embeddings.rows() > 0;
}

std::vector<Block> cut_into_blocks(const Batch& batch, std::size_t packed_rows) {
  std::vector<Block> blocks;
  bool open = false;  // the last block takes more
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const Sequence& sequence = batch.sequences[i];
    const bool alone = is_cross_attention(sequence);
    if (!open || alone || blocks.back().rows + sequence.queries() > packed_rows) blocks.emplace_back();
    append(blocks.back(), i, {sequence, sequence});
    open = !alone;
  }
  return blocks;
}

Block in_component(const Block& block, Component component, const Batch& batch) {
  Block same;
  same.component = component;
  for (const Part& part : block.parts)
    append(same, part.sequence, sides_of(component, batch.sequences[part.sequence]));
  return same;
}

}  // namespace attnctl::forward
