#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/undefined.hpp"
#include "report/csv.hpp"
#include "report/npz.hpp"
#include "report/text.hpp"
#include "results/result.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr auto kUndefinedFloat = static_cast<float>(kUndefined);

/// Five rows: a finite number, an undefined cell, an undefined NaN, a NaN, an infinity.
Table table() {
  return make_table("t", {"name", "value"},
                    {{"a", 1.0F}, {"b", Cell()}, {"c", kUndefinedFloat}, {"d", kNaN}, {"e", -kInfinity}});
}

}  // namespace

TEST_CASE("non-finite numbers are counted wherever they are in a value, and undefined ones are not") {
  const Array floats = make_array({2, 2}, std::vector<float>{1, kNaN, kUndefinedFloat, 2});
  const Array doubles = make_array({3}, std::vector<double>{kInfinity, -kInfinity, kUndefined});
  const Array integers = make_array({2}, std::vector<std::int64_t>{1, 2});
  CHECK(count_non_finite(floats) == 1);
  CHECK(count_non_finite(doubles) == 2);
  CHECK(count_non_finite(integers) == 0);
  CHECK(count_non_finite(table()) == 2);
  Record record;
  record.set("array", floats).set("cell", kInfinity).set("undefined", Value()).set("text", "nan");
  CHECK(count_non_finite(Value(List{Value(record), Value(doubles), Value(table())})) == 2 + 2 + 2);
}

TEST_CASE("-inf of hidden keys is not counted, NaN and +inf of the same array are") {
  const auto infinity = static_cast<float>(kInfinity);
  const std::vector<float> scores{1, -infinity, infinity, kNaN};
  CHECK(count_non_finite(scores, false) == 3);
  CHECK(count_non_finite(scores, true) == 2);
}

TEST_CASE("writers count what they cannot write") {
  const test::TempDir folder;
  std::atomic<std::uint64_t> count = 0;
  OutputFile csv(folder.path() / "t.csv");
  write_csv_table(csv, table(), {.number = {}, .pool = nullptr, .non_finite = &count});
  CHECK(count == 2);

  count = 0;
  TextOptions style;
  style.non_finite = &count;
  std::string text;
  append_text_table(text, table(), style);
  CHECK(count == 2);
  const Array values = make_array({1, 3}, std::vector<float>{kNaN, kUndefinedFloat, 0});
  append_text_matrix(text, {.corner = "q", .row_labels = {}, .column_labels = {}, .values = values}, style);
  append_text_heatmap(text, {.corner = "q", .row_labels = {}, .column_labels = {}, .values = values}, style);
  CHECK(count == 4);

  OutputFile out(folder.path() / "t.npz");
  NpzWriter npz(out);
  npz.add("values", values);
  CHECK(npz.non_finite() == 1);
  const std::vector<float> scores{-static_cast<float>(kInfinity), kNaN};
  npz.add_streamed("scores", {2}, true).write(0, scores);
  CHECK(npz.non_finite() == 2);
  npz.add_streamed("z", {2}).write(0, scores);
  CHECK(npz.non_finite() == 4);
}
