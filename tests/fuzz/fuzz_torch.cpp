#include "checkpoint/readers.hpp"
#include "fuzz.hpp"

// An archive or the layout before archives: whichever the bytes look like.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attnctl;
  fuzz::read_all(data, size, checkpoint::read_torch_file);
  return 0;
}
