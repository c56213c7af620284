#include "checkpoint/readers.hpp"
#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attnctl;
  fuzz::read_all(data, size, checkpoint::read_safetensors);
  return 0;
}
