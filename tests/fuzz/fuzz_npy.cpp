#include "weights.hpp"

ATTNCTL_FUZZ_TARGET(npy) {
  using namespace attnctl;
  fuzz::read_values(bytes, checkpoint::read_npy);
}
