#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "forward/attention/positions.hpp"

using attnctl::DisentangledConfig;
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
TEST_CASE("distances map to the buckets of T5") {
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

namespace {

struct RowCase {
  std::size_t span, max_distance;
  bool logarithmic;
  std::vector<std::size_t> rows;
};

const std::vector<std::int64_t> offsets = {-511, -400, -256, -200, -129, -128, -127, -31, -17, -9, -5, -4,
                                           -3,   -2,   -1,   0,    1,    2,    3,    4,   5,   6,  8,  11,
                                           16,   24,   31,   128,  129,  130,  140,  256, 300, 511};

}  // namespace

// transformers 5.23, make_log_bucket_position of modeling_deberta_v2, clamped for the lookup.
TEST_CASE("distances map to the rows of DeBERTa's table") {
  const std::vector<RowCase> cases = {
      {256, 512, true, {1,   23,  64,  87,  127, 128, 129, 225, 239, 247, 251, 252, 253, 254, 255, 256, 257,
                        258, 259, 260, 261, 262, 264, 267, 272, 280, 287, 384, 385, 386, 393, 448, 463, 511}},
      {8, 32, true, {0,  0,  0,  0,  0,  0,  0,  1,  1,  2,  3,  4,  5,  6,  7,  8,  9,
                     10, 11, 12, 13, 13, 14, 14, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15}},
      {5, 24, true, {0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 4, 5, 6,
                     7, 8, 8, 8, 8, 8, 8, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9}},
      {4, 4, false, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5,
                     6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}},
  };
  for (const RowCase& one : cases) {
    DisentangledConfig config;
    config.span = one.span;
    config.max_distance = one.max_distance;
    config.logarithmic = one.logarithmic;
    CAPTURE(one.span);
    REQUIRE(one.rows.size() == offsets.size());
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      CAPTURE(offsets[i]);
      CHECK(attnctl::forward::disentangled_row(config, offsets[i]) == one.rows[i]);
    }
  }
}
