#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "forward/attention/attention.hpp"

using attnctl::OwnedMatrix;
using attnctl::Pool;
using attnctl::model::RotaryConfig;
using attnctl::model::RotaryPairing;
namespace forward = attnctl::forward;
using attnctl::model::DisentangledConfig;
using attnctl::model::RelativeBuckets;

namespace {

RotaryConfig rotary(RotaryPairing pairing, std::size_t dims) {
  RotaryConfig config;
  config.pairing = pairing;
  config.dims = dims;
  for (std::size_t j = 0; j < dims / 2; ++j) {
    config.inverse_frequency.push_back(
        1.0F / std::pow(10000.0F, static_cast<float>(2 * j) / static_cast<float>(dims)));
  }
  return config;
}

OwnedMatrix<float> random_matrix(std::size_t rows, std::size_t cols) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1);
  OwnedMatrix<float> matrix(rows, cols);
  for (float& value : matrix.values()) value = normal(random);
  return matrix;
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

constexpr std::size_t kDHead = 10;
constexpr std::size_t kHeads = 3;
constexpr std::size_t kPositions = 1200;

void check_turned(Pool& pool, RotaryPairing pairing, std::size_t dims) {
  const bool half = pairing == RotaryPairing::half;
  const RotaryConfig config = rotary(pairing, dims);
  const OwnedMatrix<float> before = random_matrix(kPositions, kHeads * kDHead);
  OwnedMatrix<float> after = before;
  forward::RotaryTables tables;
  attnctl::forward::rotate(pool, config, rotary_table(tables, config, kPositions), kDHead, after.view());
  double worst = 0;
  bool rest_passes = true;
  for (std::size_t p = 0; p < kPositions; p += 7) {
    for (std::size_t column = 0; column < kHeads * kDHead; column += kDHead) {
      for (std::size_t j = 0; j < dims / 2; ++j) {
        const std::size_t a = column + (half ? j : 2 * j);
        const std::size_t b = column + (half ? j + dims / 2 : 2 * j + 1);
        const float angle = static_cast<float>(p) * config.inverse_frequency[j];
        const double c = double{std::cos(angle)};
        const double s = double{std::sin(angle)};
        const double want_a = double{before(p, a)} * c - double{before(p, b)} * s;
        const double want_b = double{before(p, b)} * c + double{before(p, a)} * s;
        worst =
            std::max({worst, std::abs(double{after(p, a)} - want_a), std::abs(double{after(p, b)} - want_b)});
      }
      for (std::size_t j = dims; j < kDHead; ++j) {
        rest_passes = rest_passes && after(p, column + j) == before(p, column + j);
      }
    }
  }
  CHECK(worst <= 1e-6);
  CHECK(rest_passes);
}

}  // namespace

TEST_CASE("sinusoidal positions equal the published formula") {
  OwnedMatrix<float> x(50, 7);
  std::fill(x.values().begin(), x.values().end(), 1.0F);
  forward::add_sinusoidal(x.view(), false);
  double worst = 0;
  for (std::size_t p = 0; p < 50; ++p) {
    for (std::size_t c = 0; c < 7; ++c) {
      const auto pair = static_cast<double>(c - c % 2);
      const double angle = static_cast<double>(p) * std::exp(-std::log(1e4) * pair / 7);
      const double want = 1 + (c % 2 == 0 ? std::sin(angle) : std::cos(angle));
      worst = std::max(worst, std::abs(double{x(p, c)} - want));
    }
  }
  CHECK(worst <= 3e-7);
}

TEST_CASE("rotary positions rotate pairs by float32 angles and leave the other columns") {
  for (const std::size_t threads : {1U, 3U}) {
    Pool pool(threads);
    for (const RotaryPairing pairing : {RotaryPairing::half, RotaryPairing::interleaved}) {
      for (const std::size_t dims : {10U, 4U}) check_turned(pool, pairing, dims);
    }
  }
}

TEST_CASE("the product of rotated vectors depends only on the distance between positions") {
  Pool pool(1);
  const RotaryConfig config = rotary(RotaryPairing::half, 8);
  OwnedMatrix<float> q(40, 8);
  OwnedMatrix<float> k(40, 8);
  const OwnedMatrix<float> one = random_matrix(2, 8);
  for (std::size_t p = 0; p < 40; ++p) {
    std::copy_n(one.view().row(0).begin(), 8, q.view().row(p).begin());
    std::copy_n(one.view().row(1).begin(), 8, k.view().row(p).begin());
  }
  forward::RotaryTables tables;
  attnctl::forward::rotate(pool, config, rotary_table(tables, config, 40), 8, q.view());
  attnctl::forward::rotate(pool, config, rotary_table(tables, config, 40), 8, k.view());
  const double want = dot(q.view().row(9), k.view().row(4));
  CHECK(std::abs(dot(q.view().row(39), k.view().row(34)) - want) <= 1e-5);
  CHECK(std::abs(dot(q.view().row(20), k.view().row(4)) - want) > 1e-3);
}

TEST_CASE("long sequences use the long frequencies, scaled by the attention factor") {
  RotaryConfig config = rotary(RotaryPairing::half, 2);
  config.long_inverse_frequency = {0.25F};
  config.long_from = 10;
  config.attention_factor = 2;
  forward::RotaryTables tables;
  CHECK(rotary_table(tables, config, 10).cosine(3, 0) == std::cos(3.0F) * 2);
  CHECK(rotary_table(tables, config, 11).cosine(3, 0) == std::cos(0.75F) * 2);
  CHECK(rotary_table(tables, config, 11).sine(10, 0) == std::sin(2.5F) * 2);
  CHECK(rotary_table(tables, config, 4).sine(3, 0) == std::sin(3.0F) * 2);
  const RotaryConfig other = rotary(RotaryPairing::half, 2);
  CHECK(rotary_table(tables, other, 4).sine(3, 0) == std::sin(3.0F));
}

namespace {

struct BucketCase {
  RelativeBuckets config;
  std::vector<std::size_t> buckets;
};

const std::vector<std::int64_t> kDistances = {-200, -128, -127, -100, -64, -63, -33, -32, -17,
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
    REQUIRE(one.buckets.size() == kDistances.size());
    for (std::size_t i = 0; i < kDistances.size(); ++i) {
      CAPTURE(kDistances[i]);
      CHECK(attnctl::forward::relative_bucket(one.config, kDistances[i]) == one.buckets[i]);
    }
  }
}

namespace {

struct RowCase {
  std::size_t span, max_distance;
  bool logarithmic;
  std::vector<std::size_t> rows;
};

const std::vector<std::int64_t> kOffsets = {-511, -400, -256, -200, -129, -128, -127, -31, -17, -9, -5, -4,
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
    REQUIRE(one.rows.size() == kOffsets.size());
    for (std::size_t i = 0; i < kOffsets.size(); ++i) {
      CAPTURE(kOffsets[i]);
      CHECK(attnctl::forward::disentangled_row(config, kOffsets[i]) == one.rows[i]);
    }
  }
}
