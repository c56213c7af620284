#include "report/drawing.hpp"

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "report/writers.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::report {
namespace {

std::vector<std::string> labels(const ChartAxis& axis) {
  std::vector<std::string> all;
  for (const double tick : axis.ticks) all.push_back(tick_label(tick));
  return all;
}

using Labels = std::vector<std::string>;

TEST_CASE("axes end on round numbers") {
  CHECK(labels(chart_axis({0.1, 0.93}, false)) == Labels{"0", "0.2", "0.4", "0.6", "0.8", "1"});
  CHECK(labels(chart_axis({-3, 4}, false)) == Labels{"-4", "-2", "0", "2", "4"});
  CHECK(labels(chart_axis({100, 101}, false)) == Labels{"100", "100.2", "100.4", "100.6", "100.8", "101"});
  CHECK(labels(chart_axis({5}, false)).front() == "2");
  CHECK(labels(chart_axis({}, false)).front() == "0");
  CHECK(labels(chart_axis({1, 1024}, true)) == Labels{"1", "10", "100", "1000", "10000"});
  CHECK(labels(chart_axis({2, 16}, true)) == Labels{"2", "4", "8", "16"});
  CHECK(labels(chart_axis({4}, true)) == Labels{"2", "4", "8"});
  const ChartAxis axis = chart_axis({1, 100}, true);
  CHECK(axis.place(1) == doctest::Approx(0));
  CHECK(axis.place(10) == doctest::Approx(0.5));
  CHECK(axis.place(100) == doctest::Approx(1));
}

std::string drawn(const Table& table, const std::vector<Chart>& charts) {
  const test::TempDir folder;
  const std::string path = (folder.path() / "x.svg").string();
  OutputFile out(path);
  write_picture(out, ChartPage{"A <title> & more", table, charts});
  out.commit();
  return test::slurp(path);
}

TEST_CASE("lines go through the numbers and omit undefined points") {
  const Table table = make_table("rows", {"x", "a", "b"},
                                 {{std::int64_t{1}, 1.0, 0.0},
                                  {std::int64_t{10}, 10.0, Cell()},
                                  {std::int64_t{100}, std::nan(""), 5.0},
                                  {std::int64_t{100}, 100.0, 10.0}});
  const std::string svg = drawn(table, {{.title = "T",
                                         .x = "x",
                                         .y = {"a", "b"},
                                         .x_axis = "X",
                                         .y_axis = "Y",
                                         .log_x = true,
                                         .log_y = true}});
  // The frame begins at (78, 74) and measures 360 x 230 pixels.
  CHECK(svg.find("<path d=\"M78 304L258 189L438 74\" fill=\"none\" stroke=\"#0072b2\"") != std::string::npos);
  CHECK(svg.find("stroke=\"#d55e00\" stroke-width=\"1.8\"") != std::string::npos);
  CHECK(svg.find("A &lt;title&gt; &amp; more") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg == drawn(table, {{.title = "T",
                              .x = "x",
                              .y = {"a", "b"},
                              .x_axis = "X",
                              .y_axis = "Y",
                              .log_x = true,
                              .log_y = true}}));
}

TEST_CASE("empty charts are left out, unless all are empty") {
  const Table table = make_table("rows", {"x", "full", "empty"}, {{1.0, 1.0, Cell()}, {2.0, 2.0, Cell()}});
  const Chart full = {.title = "Full chart", .x = "x", .y = {"full"}};
  const Chart empty = {.title = "Empty chart", .x = "x", .y = {"empty"}};
  for (const std::vector<Chart>& charts : {std::vector{full, empty}, std::vector{empty, full}}) {
    const std::string svg = drawn(table, charts);
    CHECK(svg.find("Full chart") != std::string::npos);
    CHECK(svg.find("Empty chart") == std::string::npos);
  }
  CHECK(drawn(table, {empty, empty}).find("Empty chart") != std::string::npos);
}

TEST_CASE("the legend writes a space for _ only in names of columns that have definitions") {
  static constexpr Definition defined = {"mean_weight", "", "[0, 1]", "", "mean weight"};
  const Table table = make_table("rows", {"x", defined, "W_Q"}, {{1.0, 1.0, 0.0}, {2.0, 2.0, 1.0}});
  const std::string svg = drawn(table, {{.title = "T", .x = "x", .y = {"mean_weight", "W_Q"}}});
  CHECK(svg.find(">mean weight<") != std::string::npos);
  CHECK(svg.find(">W_Q<") != std::string::npos);
}

TEST_CASE("a chart of a missing column throws") {
  const Table table = make_table("rows", {"x", "a"}, {{1.0, 1.0}});
  CHECK_THROWS_AS(drawn(table, {{.title = "", .x = "x", .y = {"c"}}}), std::invalid_argument);
  CHECK_THROWS_AS(drawn(table, {}), std::invalid_argument);
  const Table large{"rows", {"x", "a"}, 100001, [](std::size_t /*row*/, std::span<Cell> cells) {
                      cells[0] = 1.0;
                      cells[1] = 1.0;
                    }};
  CHECK_THROWS_AS(drawn(large, {{.title = "", .x = "x", .y = {"a"}}}), Error);
}

}  // namespace
}  // namespace attnctl::report
