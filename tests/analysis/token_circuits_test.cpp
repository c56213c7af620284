#include "analysis/weights/token_circuits.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "support/golden.hpp"
#include "support/memory_checkpoint.hpp"

namespace attnctl::analysis {
namespace {

const std::filesystem::path kSource = ATTNCTL_SOURCE_DIR;

/// Checks the values of a list of pairs against a row of a golden array.
void check_values(const std::vector<TokenPair>& pairs, const test::GoldenArray& want, std::size_t head) {
  const std::size_t count = want.shape.at(1);
  REQUIRE(pairs.size() == count);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = want.values[head * count + i];
    CHECK(std::abs(double{pairs[i].value} - value) <= 1e-5 * std::abs(value));
  }
}

TEST_CASE("circuits between tokens equal those of whole matrices in float64") {
  struct Case {
    const char* name;
    std::filesystem::path model;
  };
  const Case cases[] = {{"tiny-llama", kSource / "data/tiny-llama"},
                        {"tiny-bert", kSource / "data/tiny-bert"},
                        {"llama", kSource / "tests/golden/llama"},
                        {"albert", kSource / "tests/golden/albert"},
                        {"gpt2", kSource / "tests/golden/gpt2"}};
  for (const Case& each : cases) {
    CAPTURE(each.name);
    Warnings warnings;
    Pool pool(2);
    const model::Model model = test::bind_model(each.model, warnings);
    const test::Golden golden(kSource / "tests/golden/token_circuits" / each.name);
    const TokenCircuitOptions options{.successions = {{3, 4, 5, 6, 7}, {20, 12, 14}}};
    const std::vector<model::HeadId> heads = forward::Selection::all(model.config()).heads;
    const std::vector<TokenCircuits> found = analyze_token_circuits(model, heads, options, pool);
    const test::GoldenArray copied = golden.array("copied"), suppressed = golden.array("suppressed");
    const test::GoldenArray successor = golden.array("successor"), promoted = golden.array("promoted");
    const test::GoldenArray matched = golden.array("matched"), pairs = golden.array("promoted_pairs");
    REQUIRE(found.size() == copied.values.size());
    for (std::size_t h = 0; h < found.size(); ++h) {
      CAPTURE(h);
      // Rounding can move a token over the limit.
      const double within = 1.5 / static_cast<double>(found[h].tokens);
      CHECK(std::abs(found[h].copied.value() - copied.values[h]) <= within);
      CHECK(std::abs(found[h].suppressed.value() - suppressed.values[h]) <= within);
      CHECK(found[h].successor.value() == doctest::Approx(successor.values[h]));
      check_values(found[h].promoted, promoted, h);
      check_values(found[h].matched, matched, h);
      CHECK(static_cast<double>(found[h].promoted[0].from) == pairs.values[h * 10]);
      CHECK(static_cast<double>(found[h].promoted[0].to) == pairs.values[h * 10 + 1]);
    }
  }
}

TEST_CASE("weights on the previous token from positions alone equal those of PyTorch") {
  for (const char* const name : {"tiny-llama", "tiny-bert", "llama", "albert", "gpt2"}) {
    CAPTURE(name);
    Warnings warnings;
    Pool pool(2);
    const std::filesystem::path golden_model = kSource / "tests/golden" / name;
    const model::Model model = test::bind_model(
        std::filesystem::exists(golden_model / "config.json") ? golden_model : kSource / "data" / name,
        warnings);
    const std::vector<double> want =
        test::Golden(kSource / "tests/golden/token_circuits" / name).array("previous").values;
    const std::vector<model::HeadId> heads = forward::Selection::all(model.config()).heads;
    const std::vector<PositionPattern> found =
        position_patterns(model, heads, {.pool = pool, .warnings = warnings});
    REQUIRE(found.size() == want.size());
    for (std::size_t h = 0; h < found.size(); ++h) {
      CHECK(std::abs(found[h].previous - want[h]) <= 1e-5);
      CHECK(found[h].even > 0);
      CHECK(found[h].even <= 0.5);
    }
  }
}

TEST_CASE("tokens that are left out are in no pair and no share") {
  Warnings warnings;
  Pool pool(1);
  const model::Model model = test::bind_model(kSource / "tests/golden/gpt2", warnings);
  const std::vector<model::HeadId> heads = {{0, 0}};
  TokenCircuitOptions options{.pairs = 1};
  const TokenCircuits all = analyze_token_circuits(model, heads, options, pool).front();
  const auto gone = static_cast<std::size_t>(all.promoted.at(0).to);
  options.left_out.assign(gone + 1, false);
  options.left_out[gone] = true;
  options.pairs = 1000;
  const TokenCircuits rest = analyze_token_circuits(model, heads, options, pool).front();
  CHECK(rest.tokens == all.tokens - 1);
  REQUIRE(rest.promoted.size() == 1000);
  CHECK(rest.promoted[0].value < all.promoted[0].value);
  for (const std::vector<TokenPair>* list : {&rest.promoted, &rest.matched}) {
    CHECK(std::ranges::is_sorted(*list, std::ranges::greater_equal(), &TokenPair::value));
    for (const TokenPair& pair : *list) {
      CHECK(pair.from != static_cast<std::int64_t>(gone));
      CHECK(pair.to != static_cast<std::int64_t>(gone));
    }
  }
}

TEST_CASE("a head that writes nothing copies and suppresses no token") {
  test::MemoryModel model = test::MemoryModel::golden("gpt2");
  for (auto& [name, tensor] : model.tensors)
    if (name.ends_with("h.0.attn.c_proj.weight"))
      tensor = test::floats({15, 15}, std::vector<float>(std::size_t{15} * 15, 0));
  const model::Model bound = model.bound();
  Pool pool(1);
  const std::vector<model::HeadId> heads = {{0, 0}};
  const TokenCircuits found =
      analyze_token_circuits(bound, heads, {.successions = {{3, 4, 5}}}, pool).front();
  CHECK(found.copied == 0);
  CHECK(found.suppressed == 0);
  CHECK(found.successor == 0);
}

TEST_CASE("the chance of a successor is one of the other tokens of its list") {
  CHECK_FALSE(successor_null({}).has_value());
  const std::vector<TokenList> lists = {{1, 2, 3}, {4, 5, 6, 7, 8}};
  CHECK(successor_null(lists).value() == doctest::Approx((2 * 0.5 + 4 * 0.25) / 6));
}

}  // namespace
}  // namespace attnctl::analysis
