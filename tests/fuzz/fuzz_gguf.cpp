#include "tokenize.hpp"
#include "weights.hpp"

// The weights and the tokenizer.
ATTNCTL_FUZZ_TARGET(gguf) {
  using namespace attnctl;
  const auto checkpoint = fuzz::read_values(bytes, checkpoint::read_gguf);
  if (checkpoint->tokenizer) fuzz::tokenize({"", checkpoint->tokenizer});
}
