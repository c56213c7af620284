#include "checkpoint/readers.hpp"
#include "fuzz.hpp"

// Shards are looked for where there are none: whatever the index says, nothing else is opened.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attnctl;
  fuzz::read_all(data, size, checkpoint::read_shard_index);
  return 0;
}
