#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.hpp"
#include "tokenizer/files/tokenizer_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attnctl;
  try {
    if (tokenizer::parse_sentencepiece("fuzz", {reinterpret_cast<const char*>(data), size}).pieces.empty())
      std::abort();
  } catch (const Error& error) {
    if (escaped(error.what()) != error.what()) std::abort();
  }
  return 0;
}
