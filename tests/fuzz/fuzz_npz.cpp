#include "weights.hpp"

ATTNCTL_FUZZ_TARGET(npz) {
  using namespace attnctl;
  fuzz::read_values(fuzz::with_checksums(bytes), checkpoint::read_npz);
}
