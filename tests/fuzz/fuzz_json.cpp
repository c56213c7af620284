#include "formats/json.hpp"
#include "weights.hpp"

// A document and weights; what is a document must read back as it was written.
ATTNCTL_FUZZ_TARGET(json) {
  using namespace attnctl;
  fuzz::attempt([&] { fuzz::read_values(bytes, checkpoint::read_json_weights); });
  const auto json = formats::parse_json("fuzz", bytes);
  fuzz::require(formats::parse_json("fuzz", json.dump()).dump() == json.dump(), "JSON reads back");
}
