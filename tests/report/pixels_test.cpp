// Checks pictures as librsvg draws them: cells have the right colour at the right position, and texts are not
// cut off at the edge of the page, do not overlap and do not leave their cells.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "report/drawing.hpp"
#include "report/writers.hpp"
#include "support/raster.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::report {
namespace {

constexpr int kZoom = 2;
constexpr int kMargin = 60;  // added on each side of the page, to detect texts that would be cut off
constexpr std::array<std::size_t, 4> kHeads = {3, 12, 72, 144};
constexpr std::array<std::size_t, 4> kTokens = {5, 16, 45, 128};

std::string head_label(std::size_t index) {
  return std::to_string(index / 12) + "." + std::to_string(index % 12);
}

template <typename Page>
std::string drawn(const Page& page, const PictureOptions& options = {}) {
  const test::TempDir folder;
  OutputFile out(folder.path() / "a.svg");
  write_picture(out, page, PictureFormat::svg, options);
  out.commit();
  return test::slurp(folder.path() / "a.svg");
}

/// Keeps only the texts of a picture, half transparent, so that overlapping texts are darker. Enlarges the
/// page on all sides. The font has its default size.
std::string texts_alone(std::string svg) {
  std::string kept;
  for (std::size_t at = 0; at < svg.size();) {
    const std::size_t end = std::min(svg.find('\n', at), svg.size() - 1) + 1;
    const std::string line = svg.substr(at, end - at);
    const bool shape = line.starts_with("<rect") || line.starts_with("<path") || line.starts_with("<defs") ||
                       line.starts_with("<polygon") || line.find("<circle") != std::string::npos;
    if (!shape) kept += line;
    at = end;
  }
  kept = std::regex_replace(kept, std::regex("fill=\"#[0-9a-f]{6}\""), "fill=\"#000000\"");
  kept = std::regex_replace(kept, std::regex("<svg "), "<svg fill-opacity=\"0.5\" ");
  std::smatch size;
  REQUIRE(std::regex_search(kept, size,
                            std::regex(R"re(width="[\d.]+" height="[\d.]+" viewBox="0 0 (\d+) (\d+)")re")));
  const int width = std::stoi(size[1]);
  const int height = std::stoi(size[2]);
  const std::string larger = "width=\"" + std::to_string(width + 2 * kMargin) + "\" height=\"" +
                             std::to_string(height + 2 * kMargin) + "\" viewBox=\"" +
                             std::to_string(-kMargin) + " " + std::to_string(-kMargin) + " " +
                             std::to_string(width + 2 * kMargin) + " " +
                             std::to_string(height + 2 * kMargin) + "\"";
  return kept.replace(static_cast<std::size_t>(size.position(0)), static_cast<std::size_t>(size.length(0)),
                      larger);
}

struct Ink {
  std::size_t pixels = 0;   // pixels with text
  std::size_t doubled = 0;  // pixels where two texts overlap
  std::size_t outside = 0;  // pixels outside of the page
};

Ink ink_of(const test::Raster& raster) {
  constexpr std::uint8_t kSingle = 127;  // the darkest pixel of a single text
  Ink ink;
  const std::size_t edge = kMargin * kZoom;
  for (std::size_t y = 0; y < raster.height; ++y) {
    for (std::size_t x = 0; x < raster.width; ++x) {
      const int grey = *raster.at(x, y);
      if (grey > 250) continue;
      ++ink.pixels;
      if (grey < kSingle - 25) ++ink.doubled;
      if (x < edge || y < edge || x >= raster.width - edge || y >= raster.height - edge) ++ink.outside;
    }
  }
  return ink;
}

/// Checks that texts do not overlap and are inside the page. Returns false if rsvg-convert is not installed.
bool texts_are_whole(const std::string& svg) {
  const auto raster = test::rasterised(texts_alone(svg), kZoom);
  if (!raster) {
    MESSAGE("skipped: rsvg-convert is not installed");
    return false;
  }
  const Ink ink = ink_of(*raster);
  CHECK(ink.pixels > 500);
  CHECK(ink.doubled == 0);
  CHECK(ink.outside == 0);
  return true;
}

/// Checks the colour of every cell of a heatmap that is drawn as rectangles, near the corner of the cell,
/// which has no text. Also checks that the text stays inside its cell.
void check_cells(const std::string& svg, const HeatmapPage& page) {
  const auto picture = test::rasterised(svg, kZoom);
  const auto texts = test::rasterised(texts_alone(svg), kZoom);
  REQUIRE(picture);
  const std::regex cell(
      R"re(<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="[\d.]+" fill="#[0-9a-f]{6}"><title>)re");
  const std::regex group(R"re(<g transform="translate\(([\d.]+) ([\d.]+)\)">)re");
  std::smatch corner;
  REQUIRE(std::regex_search(svg, corner, group));
  const double left = std::stod(corner[1]);
  const double top = std::stod(corner[2]);
  const Tensor& values = page.heatmaps[0].values;
  std::size_t index = 0;
  std::size_t wrong = 0;
  std::size_t over_edge = 0;
  for (auto found = std::sregex_iterator(svg.begin(), svg.end(), cell); found != std::sregex_iterator();
       ++found) {
    const double x = left + std::stod((*found)[1]);
    const double y = top + std::stod((*found)[2]);
    const double size = std::stod((*found)[3]);
    const auto pixel = [](double at) { return static_cast<std::size_t>(std::lround(at * kZoom)); };
    const double value = static_cast<double>(std::get<std::span<const float>>(values.values)[index++]);
    const Colour want = colour_at(colormap(page.scale.diverging),
                                  (value - page.scale.low) / (page.scale.high - page.scale.low));
    const std::uint8_t* const got = picture->at(pixel(x + 3), pixel(y + 3));
    if (std::abs(got[0] - want.red) > 1 || std::abs(got[1] - want.green) > 1 ||
        std::abs(got[2] - want.blue) > 1)
      ++wrong;
    for (double along = 0; along < size; along += 0.5) {
      if (*texts->at(pixel(x + size + kMargin) - 1, pixel(y + along + kMargin)) < 250) ++over_edge;
    }
  }
  CHECK(index == values.size());
  CHECK(wrong == 0);
  CHECK(over_edge == 0);
}

HeatmapPage similarity(std::size_t heads, bool across) {
  std::vector<std::string> labels;
  std::vector<float> values(heads * heads);
  for (std::size_t i = 0; i < heads; ++i) {
    labels.push_back(across ? std::to_string(i / 8) + "." + std::to_string(i % 8)
                            : "Head " + std::to_string(i));
    for (std::size_t j = 0; j < heads; ++j) {
      values[i * heads + j] = i == j ? 1.0F : std::sin(static_cast<float>(i * 7 + j * 3));
    }
  }
  return {"Subspace Similarity",
          {true, -1, 1, "Cosine"},
          1,
          {{"", "Head", "Head", labels, labels, make_tensor({heads, heads}, std::move(values))}},
          {},
          {"a model",
           "When the committee published its long awaited report, most of the journalists who had "
           "been waiting outside since the early morning had already gone home."}};
}

/// Two similar heatmaps of clustered heads of several layers. Their tree joins neighbours.
HeatmapPage clustered(std::size_t heads) {
  HeatmapPage page = similarity(heads, true);
  page.columns = 0;
  Heatmap& map = page.heatmaps[0];
  map.title = "QK, All Layers";
  map.x_axis = map.y_axis = "Head (in cluster order)";
  map.x_labels.clear();
  map.tree.axis = "1 - similarity";
  const std::size_t layers = std::max<std::size_t>(2, heads / 12);
  for (std::size_t layer = 0; layer < layers; ++layer)
    map.tree.groups.push_back("layer " + std::to_string(layer));
  for (std::size_t i = 0; i < heads; ++i) {
    map.tree.column_groups.push_back(i % layers);
    map.x_labels.push_back(std::to_string(i % layers) + "." + std::to_string(i / layers));
  }
  map.y_labels = map.x_labels;
  std::vector<std::size_t> open(heads);
  std::iota(open.begin(), open.end(), std::size_t{0});
  while (open.size() > 1) {
    std::vector<std::size_t> joined;
    for (std::size_t i = 0; i + 1 < open.size(); i += 2) {
      const std::size_t merge = map.tree.merges.size();
      const double distance = 0.3 + 0.7 * static_cast<double>(merge) / static_cast<double>(heads);
      map.tree.merges.push_back({open[i], open[i + 1], distance});
      joined.push_back(heads + merge);
    }
    if (open.size() % 2 == 1) joined.push_back(open.back());
    open = std::move(joined);
  }
  const Heatmap other = map;
  page.heatmaps.push_back(other);
  return page;
}

/// Returns the numbers in the groups of each match.
std::vector<std::vector<double>> numbers_of(const std::string& svg, const char* pattern) {
  const std::regex expression(pattern);
  std::vector<std::vector<double>> found;
  for (std::sregex_iterator at(svg.begin(), svg.end(), expression), end; at != end; ++at) {
    std::vector<double>& row = found.emplace_back();
    for (std::size_t i = 1; i < at->size(); ++i) row.push_back(std::stod((*at)[i]));
  }
  return found;
}

std::size_t times_in(const std::string& svg, const std::string& text) {
  std::size_t times = 0;
  for (std::size_t at = svg.find(text); at != std::string::npos; at = svg.find(text, at + 1)) ++times;
  return times;
}

Heatmap pattern(const std::string& title, std::size_t tokens) {
  const std::vector<std::string> words = {
      "[CLS]", "unbelievably", "the", "W", "...", "\xE4\xB8\x96\xE7\x95\x8C", "antidisestablishmentarianism"};
  std::vector<std::string> labels;
  std::vector<float> values(tokens * tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    labels.push_back(words[i % words.size()]);
    for (std::size_t j = 0; j < tokens; ++j)
      values[i * tokens + j] = static_cast<float>((i * 31 + j * 17) % 101) / 100.0F;
  }
  return {title, "Key", "Query", labels, labels, make_tensor({tokens, tokens}, std::move(values))};
}

}  // namespace

TEST_CASE("pixels: similarities of 3, 12, 72 and 144 heads") {
  for (const std::size_t heads : kHeads) {
    CAPTURE(heads);
    for (const bool across : {false, true}) {
      const HeatmapPage page = similarity(heads, across);
      const std::string svg = drawn(page);
      if (!texts_are_whole(svg)) return;
      if (heads <= 64) check_cells(svg, page);
    }
    texts_are_whole(drawn(clustered(heads)));
  }
}

TEST_CASE("pixels: what a token attends to, in 3, 12, 72 and 144 heads, with 5, 16, 45 and 128 tokens") {
  for (const std::size_t heads : kHeads) {
    CAPTURE(heads);
    for (const std::size_t tokens : kTokens) {
      CAPTURE(tokens);
      Heatmap rows = pattern("", std::max(heads, tokens));
      rows.y_axis = "Head";
      rows.x_labels.resize(tokens);
      rows.y_labels.clear();
      for (std::size_t i = 0; i < heads; ++i) rows.y_labels.push_back(head_label(i));
      const auto values = std::get<std::span<const float>>(rows.values.values);
      rows.values = make_tensor(
          {heads, tokens},
          std::vector<float>(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(heads * tokens)));
      if (!texts_are_whole(
              drawn(HeatmapPage{"What \"it\" Attends To", {false, 0, 1, "Attention weight"}, 1, {rows}})))
        return;
    }
  }
}

TEST_CASE("a tree has a leaf above each column, and bars at its distances") {
  for (const std::size_t heads : {3U, 12U, 72U, 144U}) {
    CAPTURE(heads);
    const HeatmapPage page = clustered(heads);
    const ColumnTree& tree = page.heatmaps[0].tree;
    const std::string svg = drawn(page);
    const auto panels = numbers_of(svg, R"re(<g transform="translate\(([\d.]+) ([\d.]+)\)">)re");
    const auto bars = numbers_of(
        svg, R"re(<path d="M([\d.]+) ([\d.]+)V([\d.]+)H([\d.]+)V([\d.]+)"><title>1 - similarity)re");
    const auto strip =
        numbers_of(svg, R"re(<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="8" fill)re");
    REQUIRE(panels.size() == 2);
    REQUIRE(bars.size() == 2 * (heads - 1));
    REQUIRE(strip.size() == 2 * heads);
    const auto near = [](double a, double b) { return std::abs(a - b) < 0.03; };
    for (std::size_t panel = 0; panel < 2; ++panel) {
      const double left = panels[panel][0];
      const double bottom = bars[panel * (heads - 1)][1];
      std::vector<std::array<double, 2>> tops;  // (x, y) of each cluster
      for (std::size_t i = 0; i < heads; ++i) {
        const std::vector<double>& colour = strip[panel * heads + i];
        CHECK(near(colour[0], left + static_cast<double>(i) * colour[2]));
        CHECK(colour[1] >= bottom);
        CHECK(colour[1] + 8 <= panels[panel][1]);
        tops.push_back({left + (static_cast<double>(i) + 0.5) * colour[2], bottom});
      }
      for (std::size_t i = 0; i + 1 < heads; ++i) {
        const std::vector<double>& bar = bars[panel * (heads - 1) + i];
        const std::array<double, 2> first = tops.at(tree.merges[i].first);
        const std::array<double, 2> second = tops.at(tree.merges[i].second);
        CHECK(near(bar[0], first[0]));
        CHECK(near(bar[1], first[1]));
        CHECK(near(bar[3], second[0]));
        CHECK(near(bar[4], second[1]));
        CHECK(bar[2] < std::min(first[1], second[1]));
        CHECK((bottom - bar[2]) / (bottom - bars[0][2]) ==
              doctest::Approx(tree.merges[i].distance / tree.merges[0].distance).epsilon(0.002));
        tops.push_back({(first[0] + second[0]) / 2, bar[2]});
      }
    }
    for (std::size_t i = 0; i < heads; ++i) {
      const std::string& label = page.heatmaps[0].x_labels[i];
      CAPTURE(label);
      CHECK(times_in(svg, ">" + label + "</text>") >= 4);  // on both axes of both heatmaps
      const std::size_t layer = tree.column_groups[i];
      const std::string colour = list_colour(layer, tree.groups.size());
      CHECK(times_in(svg, "fill=\"" + colour + "\" shape-rendering=\"crispEdges\"><title>" + label +
                              ", layer " + std::to_string(layer) + "</title>") == 2);
    }
    for (const std::string& name : tree.groups) CHECK(times_in(svg, ">" + name + "</text>") == 1);
  }
}

TEST_CASE("the axis of a tree begins near the least distance if the distances differ little") {
  HeatmapPage page = clustered(12);
  const auto has_tick = [&](const std::string& label) {
    return drawn(page).find("font-size=\"9\" text-anchor=\"end\">" + label + "</text>") != std::string::npos;
  };
  CHECK(has_tick("0"));
  for (Heatmap& map : page.heatmaps) {
    for (std::size_t i = 0; i < map.tree.merges.size(); ++i)
      map.tree.merges[i].distance = 0.96 + 0.004 * static_cast<double>(i);
  }
  CHECK_FALSE(has_tick("0"));
  CHECK(has_tick("0.95"));
  CHECK(has_tick("1"));
  for (Heatmap& map : page.heatmaps) {  // heads with equal weights
    for (ColumnTree::Join& merge : map.tree.merges) merge.distance = -1e-16;
  }
  CHECK(has_tick("0"));
  CHECK(has_tick("0.01"));
}

TEST_CASE("pixels: letters of a legend in 3, 72 and 144 cells") {
  for (const auto& size : {std::array<std::size_t, 2>{1, 3}, {6, 12}, {12, 12}}) {
    const std::size_t cells = size[0] * size[1];
    CAPTURE(cells);
    std::vector<double> values;
    HeatmapPage page{"Roles", {false, 0, 1, "Score of the first letter's role"}, 0, {}};
    for (std::size_t i = 0; i < cells; ++i) {
      values.push_back(static_cast<double>(i % 11) / 10);
      page.cell_texts.emplace_back(i % 3 == 0 ? "IS" : i % 3 == 1 ? "." : "P");
    }
    page.heatmaps = {{"", "Head", "Layer", {}, {}, make_tensor({size[0], size[1]}, std::move(values))}};
    page.legend = {
        "I induction: mean weight on the token after the earlier copy of this token, in a random "
        "sequence that is repeated once",
        "", "S sink: mean weight on position 0", "P positional"};
    texts_are_whole(drawn(page));
  }
}

TEST_CASE("pixels: patterns with 5, 16, 45 and 128 tokens, of one head and of 3, 12, 72 and 144 heads") {
  for (const std::size_t tokens : kTokens) {
    CAPTURE(tokens);
    const HeatmapPage page{"Attention Pattern", {false, 0, 1, "Attention weight"}, 1, {pattern("", tokens)}};
    const std::string svg = drawn(page);
    if (!texts_are_whole(svg)) return;
    if (tokens <= 64) check_cells(svg, page);
    for (const std::size_t heads : kHeads) {
      if (heads * tokens * tokens > 250000) continue;  // more cells than a picture can show
      CAPTURE(heads);
      const std::size_t columns = heads > 12 ? 12 : 0;  // a row per layer, or the heads of one layer
      HeatmapPage grid{"Attention Patterns", {false, 0, 1, "Attention weight"}, columns, {}};
      for (std::size_t i = 0; i < heads; ++i) grid.heatmaps.push_back(pattern(head_label(i), tokens));
      texts_are_whole(drawn(grid));
    }
  }
}

TEST_CASE("pixels: the last row of a grid is incomplete") {
  for (const std::size_t panels : {1U, 2U, 5U, 7U}) {
    CAPTURE(panels);
    HeatmapPage page{"Attention Patterns", {false, 0, 1, "Attention weight"}, 4, {}};
    for (std::size_t i = 0; i < panels; ++i) page.heatmaps.push_back(pattern(head_label(i), 14));
    if (!texts_are_whole(drawn(page))) return;
  }
}

TEST_CASE("pixels: the pictures of the documentation") {
  std::size_t pictures = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ATTNCTL_SOURCE_DIR "/docs/images")) {
    CAPTURE(entry.path().string());
    if (!texts_are_whole(test::slurp(entry.path()))) return;
    ++pictures;
  }
  CHECK(pictures >= 20);
}

TEST_CASE("pixels: texts of any size, and long titles, are whole") {
  std::vector<std::vector<Cell>> rows;
  for (int i = 0; i < 24; ++i)
    rows.push_back(
        {std::to_string(i / 4) + "." + std::to_string(i % 4), std::sin(i * 0.7), std::cos(i * 0.4)});
  const ChartPage charts{
      "Charts",
      make_table("rows", {"head", "a", "b"}, rows),
      {{.title = "Bars", .x = "head", .y = {"a", "b"}, .x_axis = "Head", .y_axis = "a", .bars = true},
       {.title = "Points",
        .x = "a",
        .y = {"b"},
        .x_axis = "a",
        .y_axis = "b",
        .points = true,
        .labels = "head"},
       {.title = "Lines of a column", .x = "b", .y = {"a"}, .x_axis = "b", .y_axis = "a"}},
      {"a model"}};
  HeatmapPage grid{"Attention Patterns", {false, 0, 1, "Attention weight"}, 0, {}};
  for (const char* title : {"QK, Layer 0", "OV, Layer 0", "QK, Layer 1", "OV, Layer 1"})
    grid.heatmaps.push_back(pattern(title, 4));
  HeatmapPage logarithmic{"", {false, 0.001, 1, "Weight", true}, 0, {pattern("", 4)}};
  for (const double points : {5.0, 9.0, 14.0, 18.0, 36.0}) {
    CAPTURE(points);
    const PictureOptions options = {
        .title = "A title that is longer than the picture needs to be, with <special> & \"quoted\" words",
        .font_size = points,
        .width = 700};
    if (!texts_are_whole(drawn(grid, options))) return;
    texts_are_whole(drawn(similarity(12, false), options));
    texts_are_whole(drawn(clustered(12), options));
    texts_are_whole(drawn(charts, options));
    texts_are_whole(drawn(charts, {.title = "", .font_size = points}));
    texts_are_whole(drawn(similarity(5, true), {.title = "", .font_size = points}));
    texts_are_whole(drawn(logarithmic, {.font_size = points, .vmin = 1e-8}));
  }
}

TEST_CASE("pixels: the labels of 3, 12, 72 and 144 points do not overlap") {
  for (const std::size_t heads : kHeads) {
    CAPTURE(heads);
    std::vector<std::vector<Cell>> rows;
    for (std::size_t i = 0; i < heads; ++i) {
      const double radius = i < 40 ? 0.1 : 1;
      const auto angle = static_cast<double>(i);
      rows.push_back({head_label(i), radius * std::sin(angle * 2.4), radius * std::cos(angle * 1.7)});
    }
    const Chart chart{.title = "Points", .x = "x", .y = {"y"}, .points = true, .labels = "head"};
    const std::string svg = drawn(ChartPage{"Map", make_table("rows", {"head", "x", "y"}, rows), {chart}});
    for (const std::vector<Cell>& row : rows)
      CHECK(svg.find(">" + std::get<std::string>(row[0]) + "</text>") != std::string::npos);
    texts_are_whole(svg);
  }
}

TEST_CASE("pixels: bars of 9 tokens") {
  std::vector<std::vector<Cell>> rows;
  for (const char* token : {"unhappily", "the", "cat", "[MASK]", "on", "the", "mat", "WWWWWWW", "[SEP]"})
    rows.push_back({std::string(token), std::sin(static_cast<double>(rows.size())), 1.0});
  const Table table = make_table("rows", {"token", "a", "b"}, rows);
  const Chart chart{
      .title = "Bars", .x = "token", .y = {"a", "b"}, .x_axis = "Token", .y_axis = "a", .bars = true};
  const std::string svg = drawn(ChartPage{"Attribution", table, {chart, chart, chart}, {"a model"}});
  CHECK(times_in(svg, ">[MASK]</text>") == 3);
  texts_are_whole(svg);
}

TEST_CASE("an outline is the convex polygon of the points of the first column") {
  const Table table = make_table(
      "rows", {"x", "corner", "inside"},
      {{0.0, 0.0, Cell()}, {1.0, 1.0, Cell()}, {1.0, 0.0, Cell()}, {0.0, 1.0, Cell()}, {0.4, Cell(), 0.5}});
  const Chart chart{.title = "T", .x = "x", .y = {"corner", "inside"}, .points = true, .outline = true};
  const std::string svg = drawn(ChartPage{"P", table, {chart}});
  std::smatch found;
  REQUIRE(std::regex_search(svg, found, std::regex("<polygon points=\"([^\"]*)\"")));
  const std::string corners = found[1];
  const std::regex pair("([0-9.]+),([0-9.]+)");
  std::vector<std::array<double, 2>> points;
  for (std::sregex_iterator it(corners.begin(), corners.end(), pair), end; it != end; ++it)
    points.push_back({std::stod((*it)[1]), std::stod((*it)[2])});
  REQUIRE(points.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {  // neighbours differ in one coordinate: sides, no diagonals
    const auto& next = points[(i + 1) % 4];
    CHECK((points[i][0] == next[0]) != (points[i][1] == next[1]));
  }
}

TEST_CASE("pixels: lines and bars") {
  std::vector<std::vector<Cell>> rows;
  for (int i = 0; i < 24; ++i) {
    rows.push_back({std::to_string(i / 4) + "." + std::to_string(i % 4), static_cast<double>(1 << i),
                    std::sin(i * 0.7), static_cast<double>(i) * 1e5});
  }
  const Table table = make_table("rows", {"head", "x", "a", "b"}, rows);
  const std::vector<Chart> charts = {
      {.title = "Bars of both signs", .x = "head", .y = {"a"}, .x_axis = "Head", .y_axis = "a", .bars = true},
      {.title = "Two series", .x = "head", .y = {"a", "b"}, .x_axis = "Head", .y_axis = "b", .bars = true},
      {.title = "Lines", .x = "x", .y = {"a", "b"}, .x_axis = "x", .y_axis = "b", .log_x = true},
      {.title = "Points", .x = "a", .y = {"b"}, .points = true, .labels = "head"},
      {.title = "Far points", .x = "x", .y = {"a"}, .points = true, .labels = "head"},
      {.title = "Linear", .x = "b", .y = {"a"}, .x_axis = "x", .y_axis = "a"}};
  const std::string svg = drawn(ChartPage{"Charts", table, charts});
  if (!texts_are_whole(svg)) return;

  // The first visible bar: row 1, sin 0.7 = 0.644, on an axis from -1 to 1, in the first plot.
  const auto raster = test::rasterised(svg, kZoom);
  const auto is = [&](double x, double y, Colour want) {
    const std::uint8_t* const got =
        raster->at(static_cast<std::size_t>(x * kZoom), static_cast<std::size_t>(y * kZoom));
    return got[0] == want.red && got[1] == want.green && got[2] == want.blue;
  };
  const double group = 360.0 / 24;
  const double middle = 78 + 1.5 * group;
  const double zero = 74 + 230.0 / 2;
  const double top = zero - 230.0 / 2 * std::sin(0.7);
  CHECK(is(middle, top + 2, {0x00, 0x72, 0xb2}));
  CHECK(is(middle, zero - 3, {0x00, 0x72, 0xb2}));
  CHECK(is(middle, top - 3, {0xff, 0xff, 0xff}));
  CHECK(is(middle, zero + 3, {0xff, 0xff, 0xff}));
}

}  // namespace attnctl::report
