#include "linalg/encoded.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "base/memory.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::linalg {
namespace {

constexpr std::string_view kSets[] = {"avx512", "avx2", "sse2", "baseline"};

/// A matrix of random blocks with scales of the size of weights.
struct RandomBlocks {
  RandomBlocks(NumberEncoding encoding, std::size_t rows, std::size_t cols, std::uint32_t seed) {
    const EncodingBlock block = block_size(encoding);
    const std::size_t stride = (cols + block.values - 1) / block.values * block.bytes;
    bytes.resize(1 + rows * stride);  // begins at an odd address
    std::mt19937 random(seed);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 256);
    const auto put_half = [&](std::size_t at, std::uint16_t bits) {
      std::memcpy(bytes.data() + at, &bits, sizeof bits);
    };
    for (std::size_t at = 1; at + block.bytes <= bytes.size(); at += block.bytes) {
      const auto half = static_cast<std::uint16_t>(0x2000 + random() % 0x800);  // 0.008 to 0.03
      const auto negative = static_cast<std::uint16_t>(half | 0x8000U);
      if (encoding == NumberEncoding::f16) put_half(at, random() % 2 == 0 ? half : negative);
      if (encoding == NumberEncoding::bf16)
        put_half(at, static_cast<std::uint16_t>(0x3C00 + random() % 0x100 + 0x8000 * (random() % 2)));
      if (encoding == NumberEncoding::mxfp4) bytes[at] = static_cast<std::byte>(118 + random() % 4);
      if (encoding == NumberEncoding::q6_k) put_half(at + 208, 0x0400);
      if (block.values > 1 && encoding != NumberEncoding::mxfp4 && encoding != NumberEncoding::q6_k)
        put_half(at, half);
      if (encoding == NumberEncoding::q4_1 || encoding == NumberEncoding::q5_1) put_half(at + 2, negative);
      if (encoding == NumberEncoding::q4_k || encoding == NumberEncoding::q5_k) {
        put_half(at, 0x1400);
        put_half(at + 2, 0x1800);
      }
    }
    matrix = {bytes.data() + 1, encoding, rows, cols, stride};
  }

  std::vector<std::byte> bytes;
  EncodedMatrix matrix;
};

OwnedMatrix<float> decoded(const EncodedMatrix& matrix) {
  OwnedMatrix<float> out(matrix.rows, matrix.cols);
  for (std::size_t r = 0; r < matrix.rows; ++r) matrix.decode_row(r, out.view().row(r));
  return out;
}

OwnedMatrix<float> random_matrix(std::size_t rows, std::size_t cols, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  OwnedMatrix<float> matrix(rows, cols);
  for (float& value : matrix.values()) value = normal(random);
  return matrix;
}

/// Returns the largest error of c, in units of the rounding error of sums of this length.
double error_of(bool transposed, const OwnedMatrix<float>& a, const OwnedMatrix<float>& b,
                const std::vector<float>& bias, const OwnedMatrix<float>& before,
                const OwnedMatrix<float>& c) {
  double worst = 0;
  for (std::size_t i = 0; i < c.rows(); ++i) {
    for (std::size_t j = 0; j < c.cols(); ++j) {
      double want = before.values().empty() ? 0 : double{before(i, j)};
      if (!bias.empty()) want += double{bias[j]};
      double size = std::abs(want) + 1e-30;
      for (std::size_t p = 0; p < a.cols(); ++p) {
        const double term = double{a(i, p)} * double{transposed ? b(j, p) : b(p, j)};
        want += term;
        size += std::abs(term);
      }
      worst = std::max(worst, std::abs(double{c(i, j)} - want) / size);
    }
  }
  return worst / 1.2e-7;
}

void multiply_with(std::string_view set, bool transposed, const OwnedMatrix<float>& a, const EncodedMatrix& b,
                   const std::vector<float>& bias, bool accumulate, OwnedMatrix<float>& c) {
  EncodedProduct product;
  product.product = {c.rows(), c.cols(), a.cols(),   a.values().data(),
                     a.cols(), nullptr,  0,          c.values().data(),
                     c.cols(), 1,        accumulate, bias.empty() ? nullptr : bias.data()};
  product.b = &b;
  product.transposed = transposed;
  product.block = block_size(b.encoding);
  product.decode = kernels_named(set)->decoders.at(static_cast<std::size_t>(b.encoding));
  AlignedWorkspace workspace;
  gemm_kernels_named(set)->encoded(product, workspace.take(kGemmWorkspace));
}

}  // namespace

TEST_CASE("all instruction sets decode the same bits") {
  for (std::size_t e = 0; e < kEncodings; ++e) {
    const auto encoding = static_cast<NumberEncoding>(e);
    const RandomBlocks blocks(encoding, 3, 512, 7);
    const std::size_t count = 3 * 512 / block_size(encoding).values;
    std::vector<float> want(std::size_t{3} * 512);
    kernels_named("baseline") != nullptr
        ? kernels_named("baseline")->decoders[e].rows(blocks.matrix.data, count, want.data())
        : kernels_named("sse2")->decoders[e].rows(blocks.matrix.data, count, want.data());
    CHECK(std::ranges::count(want, 0.0F) < 300);
    for (const std::string_view set : kSets) {
      const Kernels* const kernels = kernels_named(set);
      if (kernels == nullptr) continue;
      CAPTURE(e);
      CAPTURE(set);
      std::vector<float> got(want.size());
      kernels->decoders[e].rows(blocks.matrix.data, count, got.data());
      CHECK(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("decoding several rows at a time gives the same bits as decoding each row") {
  for (const std::string_view set : kSets) {
    const Kernels* const kernels = kernels_named(set);
    if (kernels == nullptr) continue;
    const std::size_t lanes = set == "avx512" ? 16 : set == "avx2" ? 8 : 4;
    for (std::size_t e = 0; e < kEncodings; ++e) {
      const auto [decode, decode_columns] = kernels->decoders[e];
      if (set == "avx2") CHECK((decode_columns != nullptr) == (block_size(NumberEncoding(e)).values > 1));
      if (decode_columns == nullptr) continue;
      CAPTURE(set);
      CAPTURE(e);
      const RandomBlocks blocks(static_cast<NumberEncoding>(e), lanes, 512, 23);
      std::vector<const std::byte*> rows;
      for (std::size_t r = 0; r < lanes; ++r) rows.push_back(blocks.matrix.row(r));
      const std::size_t stride = 3 * lanes;
      AlignedWorkspace workspace;
      float* const columns = workspace.take(512 * stride);
      const std::size_t count = 512 / block_size(blocks.matrix.encoding).values;
      decode_columns(rows.data(), count, columns, stride);
      std::size_t wrong = 0;
      for (std::size_t r = 0; r < lanes; ++r) {
        std::vector<float> want(512);
        decode(rows[r], count, want.data());
        for (std::size_t i = 0; i < want.size(); ++i)
          wrong += std::memcmp(&want[i], columns + i * stride + r, sizeof(float)) == 0 ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("halves of every kind are decoded exactly") {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  for (const std::string_view set : kSets) {
    const Kernels* const kernels = kernels_named(set);
    if (kernels == nullptr) continue;
    CAPTURE(set);
    std::vector<float> values(halves.size());
    kernels->decoders[0].rows(reinterpret_cast<const std::byte*>(halves.data()), halves.size(),
                              values.data());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const int exponent = static_cast<int>(i >> 10 & 31);
      const auto fraction = static_cast<double>(i & 1023);
      double want = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      if (exponent == 31) want = fraction > 0 ? NAN : INFINITY;
      if ((i & 0x8000) != 0) want = -want;
      const bool same = std::isnan(want)
                            ? std::isnan(values[i])
                            : double{values[i]} == want && std::signbit(values[i]) == std::signbit(want);
      wrong += same ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("products with an encoded matrix equal those with its decoded numbers") {
  struct Extents {
    std::size_t m, n, blocks;
  };
  for (std::size_t e = 0; e < kEncodings; ++e) {
    const auto encoding = static_cast<NumberEncoding>(e);
    const std::size_t values = block_size(encoding).values;
    for (const Extents& extents : {Extents{1, 1, 1}, Extents{2, 17, 3}, Extents{6, 64, 2}, Extents{7, 65, 1},
                                   Extents{13, 130, 5}, Extents{40, 33, 4}}) {
      const std::size_t k = extents.blocks * (values == 1 ? 333 : values == 32 ? 224 : values);
      const RandomBlocks b(encoding, extents.n, k, 11);
      const OwnedMatrix<float> plain = decoded(b.matrix);
      const OwnedMatrix<float> a = random_matrix(extents.m, k, 3);
      const OwnedMatrix<float> before = random_matrix(extents.m, extents.n, 4);
      std::vector<float> added(extents.n);
      for (std::size_t j = 0; j < extents.n; ++j) added[j] = static_cast<float>(j) / 8;
      for (const std::string_view set : kSets) {
        if (kernels_named(set) == nullptr) continue;
        CAPTURE(e);
        CAPTURE(set);
        CAPTURE(extents.m);
        CAPTURE(extents.n);
        CAPTURE(k);
        OwnedMatrix<float> c(extents.m, extents.n);
        multiply_with(set, true, a, b.matrix, {}, false, c);
        CHECK(error_of(true, a, plain, {}, {}, c) < 8);
        OwnedMatrix<float> sum = before;
        multiply_with(set, true, a, b.matrix, added, true, sum);
        CHECK(error_of(true, a, plain, added, before, sum) < 8);
      }
    }
  }
}

TEST_CASE("products with rows of halves that are inputs equal those with the decoded numbers") {
  for (const NumberEncoding encoding : {NumberEncoding::f16, NumberEncoding::bf16}) {
    for (const std::size_t n : {1UL, 16UL, 70UL, 129UL}) {
      const RandomBlocks b(encoding, 600, n, 13);
      const OwnedMatrix<float> a = random_matrix(9, 600, 3);
      const OwnedMatrix<float> plain = decoded(b.matrix);
      for (const std::string_view set : kSets) {
        if (kernels_named(set) == nullptr) continue;
        CAPTURE(set);
        CAPTURE(n);
        OwnedMatrix<float> c(9, n);
        multiply_with(set, false, a, b.matrix, {}, false, c);
        CHECK(error_of(false, a, plain, {}, {}, c) < 8);
      }
      if (n < 70) continue;
      OwnedMatrix<float> part(9, 20);
      multiply_encoded(false, a.view(), b.matrix.col_range(33, 20), {}, part.view(), false);
      OwnedMatrix<float> columns(600, 20);
      for (std::size_t r = 0; r < 600; ++r) {
        for (std::size_t j = 0; j < 20; ++j) columns(r, j) = plain(r, 33 + j);
      }
      CHECK(error_of(false, a, columns, {}, {}, part) < 8);
    }
  }
}

TEST_CASE("ranges of rows of an encoded matrix keep the order of rotary pairs") {
  RandomBlocks b(NumberEncoding::q8_0, 24, 64, 17);
  const OwnedMatrix<float> stored = decoded(b.matrix);
  b.matrix.head_rows = 8;  // three heads, rows stored as 0, 4, 1, 5, 2, 6, 3, 7
  constexpr std::size_t kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const EncodedMatrix part = b.matrix.row_range(6, 13);
  const OwnedMatrix<float> got = decoded(part);
  for (std::size_t r = 0; r < 13; ++r) {
    const std::size_t whole = 6 + r;
    CAPTURE(r);
    CHECK(std::ranges::equal(got.view().row(r), stored.view().row(whole / 8 * 8 + kOrder[whole % 8])));
  }
  CHECK(std::ranges::equal(decoded(part.row_range(3, 2)).view().row(1), got.view().row(4)));
}

TEST_CASE("a product with an encoded matrix checks its shapes") {
  const RandomBlocks b(NumberEncoding::q4_0, 8, 64, 19);
  OwnedMatrix<float> a(2, 64), c(2, 8), narrow(2, 7);
  CHECK_THROWS_AS(multiply_encoded(true, a.view(), b.matrix, {}, narrow.view(), false), std::logic_error);
  CHECK_THROWS_AS(multiply_encoded(false, c.view(), b.matrix, {}, a.view(), false), std::logic_error);
  CHECK_THROWS_AS((void)b.matrix.col_range(5, 32), std::logic_error);
  CHECK(b.matrix.col_range(32, 32).cols == 32);
  const std::vector<float> bias(7);
  CHECK_THROWS_AS(multiply_encoded(true, a.view(), b.matrix, bias, c.view(), false), std::logic_error);
}

}  // namespace attnctl::linalg
