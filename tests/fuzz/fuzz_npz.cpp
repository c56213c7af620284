#include "checkpoint/readers.hpp"
#include "fuzz.hpp"

// An archive, or a single array: whichever the bytes look like.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attnctl;
  fuzz::read_all([&] {
    Warnings warnings;
    return size > 0 && data[0] == 'P' ? checkpoint::open_npz(fuzz::file_of(data, size), warnings)
                                      : checkpoint::open_npy(fuzz::file_of(data, size), "x");
  });
  return 0;
}
