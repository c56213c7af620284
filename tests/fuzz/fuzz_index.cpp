#include <filesystem>

#include "checkpoint/readers.hpp"
#include "fuzz.hpp"

// Shards are looked for where there are none: whatever the index says, nothing else is opened.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attnctl;
  fuzz::read_all([&] {
    Warnings warnings;
    const MappedFile index("/nonexistent/folder/fuzz", std::as_bytes(std::span(data, size)));
    return checkpoint::open_shard_index(index, ".safetensors", warnings);
  });
  return 0;
}
