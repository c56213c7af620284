#include <string_view>

#include "checkpoint/readers.hpp"
#include "formats/json.hpp"
#include "fuzz.hpp"

// A document and weights; what is a document must read back as it was written.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attnctl;
  fuzz::read_all(data, size, checkpoint::read_json_weights);
  try {
    const auto json = formats::parse_json("fuzz", {reinterpret_cast<const char*>(data), size});
    if (formats::parse_json("fuzz", json.dump()).dump() != json.dump()) std::abort();
  } catch (const Error& error) {
    if (escaped(error.what()) != error.what()) std::abort();
  }
  return 0;
}
