#include "weights.hpp"

// Shards are looked for where there are none: whatever the index says, nothing else is opened.
ATTNCTL_FUZZ_TARGET(index) {
  using namespace attnctl;
  fuzz::read_values(bytes, checkpoint::read_shard_index);
}
