#include "weights.hpp"

// An archive or the layout before archives: whichever the bytes look like.
ATTNCTL_FUZZ_TARGET(torch) {
  using namespace attnctl;
  fuzz::read_values(fuzz::with_checksums(bytes), checkpoint::read_torch_file);
}
