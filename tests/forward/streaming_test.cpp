#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "analysis/weights/weights.hpp"
#include "base/pool.hpp"
#include "forward/run.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"

using attnctl::OwnedMatrix;
using attnctl::test::CapturedHead;
using attnctl::test::CapturedSequence;

namespace {

/// Returns true if all bits are equal, so a NaN equals itself.
template <typename T>
bool same(const OwnedMatrix<T>& a, const OwnedMatrix<T>& b) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return false;
  return a.values().empty() ||
         std::memcmp(a.values().data(), b.values().data(), a.values().size_bytes()) == 0;
}

bool same(const CapturedHead& a, const CapturedHead& b) {
  return same(a.pattern, b.pattern) && same(a.scores, b.scores) && same(a.z, b.z) && same(a.q, b.q) &&
         same(a.k, b.k) && same(a.v, b.v) && a.fully_masked == b.fully_masked;
}

bool same(const CapturedSequence& a, const CapturedSequence& b) {
  const auto same_entry = [](const auto& x, const auto& y) {
    return x.first == y.first && same(x.second, y.second);
  };
  return std::ranges::equal(a.heads, b.heads, same_entry) &&
         std::ranges::equal(a.output, b.output, same_entry) && same(a.logits, b.logits);
}

}  // namespace

TEST_CASE("releasing weights layer by layer changes no bit of a pass") {
  for (const auto& directory : attnctl::test::golden_models()) {
    CAPTURE(directory.filename().string());
    const attnctl::test::Golden golden(directory);
    attnctl::Warnings warnings;
    const attnctl::Model model = attnctl::test::bind_model(directory, warnings);
    attnctl::Batch batch;
    for (std::size_t i = 0; i < golden.inputs(); ++i) {
      batch.sequences.push_back(golden.sequence(i));
      batch.sequences.push_back(golden.sequence(i));
    }
    const auto kept = attnctl::test::capture_all(model, batch, {.threads = 2, .packed_rows = 4});
    for (const std::size_t rows : {1U, 13U, 1000U}) {  // one block, a few blocks, all rows
      CAPTURE(rows);
      const auto streamed =
          attnctl::test::capture_all(model, batch, {.threads = 2, .packed_rows = 4, .streamed_rows = rows});
      const bool equal =
          std::ranges::equal(kept, streamed, [](const auto& a, const auto& b) { return same(a, b); });
      CHECK(equal);
    }
  }
}

TEST_CASE("releasing weights layer by layer changes no bit of an analysis of weights") {
  attnctl::Pool pool(2);
  for (const auto& directory : attnctl::test::golden_models()) {
    CAPTURE(directory.filename().string());
    for (const bool fold_norm : {false, true}) {
      attnctl::Warnings warnings[2];
      const auto analyze = [&](bool streamed) {
        const attnctl::Model model = attnctl::test::bind_model(directory, warnings[streamed ? 1 : 0]);
        return analyze_weights(model, attnctl::Selection::all(model.config()),
                               {.fold_norm = fold_norm, .directions = 2, .streamed = streamed}, pool,
                               warnings[streamed ? 1 : 0]);
      };
      const attnctl::WeightsAnalysis kept = analyze(false);
      const attnctl::WeightsAnalysis streamed = analyze(true);
      REQUIRE(kept.ov.has_value() == streamed.ov.has_value());
      const auto check = [](const attnctl::CircuitAnalysis& a, const attnctl::CircuitAnalysis& b) {
        const bool heads = std::ranges::equal(a.heads, b.heads, [](const auto& x, const auto& y) {
          return x.head == y.head && x.singular_values == y.singular_values &&
                 x.effective_rank == y.effective_rank && x.stable_rank == y.stable_rank &&
                 x.numerical_rank == y.numerical_rank && same(x.left, y.left) && same(x.right, y.right);
        });
        const bool similarity =
            std::ranges::equal(a.similarity, b.similarity, [](const auto& x, const auto& y) {
              return x.layer == y.layer && x.heads == y.heads && same(x.values, y.values);
            });
        CHECK(heads);
        CHECK(similarity);
      };
      check(kept.qk, streamed.qk);
      if (kept.ov) check(*kept.ov, *streamed.ov);
      const auto list = warnings[0].list();
      const auto other = warnings[1].list();
      const bool alike = std::ranges::equal(list, other, [](const auto& a, const auto& b) {
        return a.code == b.code && a.message == b.message;
      });
      CHECK(alike);
    }
  }
}
