#include "forward/position_bias.hpp"

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

using attnctl::RelativeBuckets;

namespace {

struct BucketCase {
  RelativeBuckets config;
  std::vector<std::size_t> buckets;
};

const std::vector<std::int64_t> distances = {-200, -128, -127, -100, -64, -63, -33, -32, -17,
                                             -16,  -15,  -8,   -7,   -3,  -1,  0,   1,   2,
                                             5,    8,    15,   16,   31,  64,  65,  300};

}  // namespace

// transformers 5.23, T5Attention._relative_position_bucket.
TEST_CASE("distances fall into the buckets of T5") {
  const std::vector<BucketCase> cases = {
      {{32, 128, true, 32},
       {15, 15, 15, 15, 14, 13, 12, 12, 10, 10, 9, 8, 7, 3, 1, 0, 17, 18, 21, 24, 25, 26, 27, 30, 30, 31}},
      {{32, 128, false, 32},
       {31, 31, 31, 30, 26, 26, 21, 21, 16, 16, 15, 8, 7, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {{7, 9, false, 7}, {6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
  };
  for (const BucketCase& one : cases) {
    CAPTURE(one.config.buckets);
    CAPTURE(one.config.bidirectional);
    REQUIRE(one.buckets.size() == distances.size());
    for (std::size_t i = 0; i < distances.size(); ++i) {
      CAPTURE(distances[i]);
      CHECK(attnctl::forward::relative_bucket(one.config, distances[i]) == one.buckets[i]);
    }
  }
}
