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

TEST_CASE("the x axis of lines ends at their last point") {
  std::vector<std::vector<Cell>> rows;
  for (int i = 0; i < 8; ++i) rows.push_back({static_cast<double>(i), 1.0, std::pow(2.0, i + 3)});
  const Table table = make_table("rows", {"head", "a", "d_k"}, rows);
  const std::string lines = drawn(table, {{.title = "T", .x = "head", .y = {"a"}}});
  CHECK(lines.find("<path d=\"M78 ") != std::string::npos);
  CHECK(lines.find("L438 ") != std::string::npos);
  CHECK(lines.find(">6</text>") != std::string::npos);
  CHECK(lines.find(">8</text>") == std::string::npos);
  const std::string logarithmic = drawn(table, {{.title = "T", .x = "d_k", .y = {"a"}, .log_x = true}});
  CHECK(logarithmic.find("L438 ") != std::string::npos);
  CHECK(logarithmic.find(">10000</text>") == std::string::npos);
}

TEST_CASE("labels of bars that would overlap are turned, or some are left out") {
  const auto bars = [](int count) {
    std::vector<std::vector<Cell>> rows;
    for (int i = 0; i < count; ++i) rows.push_back({"label " + std::to_string(i), 1.0});
    return drawn(make_table("rows", {"x", "a"}, rows), {{.title = "T", .x = "x", .y = {"a"}, .bars = true}});
  };
  const auto labels_of = [](const std::string& svg) {
    std::size_t found = 0;
    for (std::size_t at = svg.find(">label "); at != std::string::npos; at = svg.find(">label ", at + 1))
      found += svg.find('<', at) == svg.find("</text>", at) ? 1 : 0;
    return found;
  };
  CHECK(bars(5).find("rotate(-45") == std::string::npos);
  CHECK(labels_of(bars(5)) == 5);
  CHECK(bars(15).find("rotate(-45") != std::string::npos);
  CHECK(labels_of(bars(15)) == 15);
  CHECK(bars(40).find("rotate(-45") == std::string::npos);
  CHECK(labels_of(bars(40)) < 20);
}

TEST_CASE("each row of charts has space for its own legends, their marks are dots, lines or bars") {
  const Table table = make_table("rows", {"x", "a", "b"}, {{1.0, 1.0, 2.0}, {2.0, 2.0, 1.0}});
  const auto height = [&](const std::vector<Chart>& charts) {
    const std::string svg = drawn(table, charts);
    return std::stoi(svg.substr(svg.find(" height=\"") + 9));
  };
  const Chart one = {.title = "T", .x = "x", .y = {"a"}};
  const Chart two = {.title = "T", .x = "x", .y = {"a", "b"}};
  const int legend = height({two}) - height({one});
  CHECK(legend > 0);
  CHECK(height({one, one, two}) == height({two, one, one}));
  CHECK(height({one, one, two}) == height({one, one, one}) + legend);
  const auto marks = [&](bool bars, bool points, const char* mark) {
    const Chart chart = {.title = "T", .x = "x", .y = {"a", "b"}, .bars = bars, .points = points};
    return drawn(table, {chart}).find(mark) != std::string::npos;
  };
  CHECK(marks(false, true, "r=\"4\" fill=\"#d55e00\"/>"));
  CHECK(marks(true, false, "h22\" stroke=\"#d55e00\" stroke-width=\"10\"/>"));
  CHECK(marks(false, false, "h22\" stroke=\"#d55e00\" stroke-width=\"2.4\"/>"));
}

TEST_CASE("charts with the same label of the y axis have the same y axis") {
  const Table table = make_table("rows", {"x", "a", "b"}, {{"0", 8.0, 35.0}, {"1", 7.0, 38.0}});
  const Chart low = {.title = "Low", .x = "x", .y = {"a"}, .y_axis = "Norm", .bars = true};
  Chart high = {.title = "High", .x = "x", .y = {"b"}, .y_axis = "Norm", .bars = true};
  const auto ticks_of_40 = [&] {
    const std::string svg = drawn(table, {low, high});
    const std::size_t first = svg.find(">40</text>");
    return first == std::string::npos ? 0 : first == svg.rfind(">40</text>") ? 1 : 2;
  };
  CHECK(ticks_of_40() == 2);
  high.y_axis = "Count";
  CHECK(ticks_of_40() == 1);
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
