#include "weights.hpp"

ATTNCTL_FUZZ_TARGET(safetensors) {
  using namespace attnctl;
  fuzz::read_values(bytes, checkpoint::read_safetensors);
}
