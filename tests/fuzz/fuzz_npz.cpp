#include "checkpoint/readers.hpp"
#include "fuzz.hpp"

// An archive, or a single array: whichever the bytes look like.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attnctl;
  fuzz::read_all(data, size, size > 0 && data[0] == 'P' ? checkpoint::read_npz : checkpoint::read_npy);
  return 0;
}
