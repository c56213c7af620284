#include <filesystem>

#include "checkpoint/readers.hpp"
#include "fuzz.hpp"

// Shards are looked for where there are none: whatever the index says, nothing else is opened.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attnctl;
  fuzz::read_all([&] {
    Warnings warnings;
    return checkpoint::open_shard_index(fuzz::file_of(data, size), "/nonexistent/folder", ".safetensors",
                                        warnings);
  });
  return 0;
}
