#include "checkpoint/readers.hpp"
#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attnctl;
  fuzz::read_all([&] { return checkpoint::open_gguf(fuzz::file_of(data, size)); });
  return 0;
}
