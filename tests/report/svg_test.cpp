#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "report/drawing.hpp"
#include "report/svg_canvas.hpp"
#include "report/text.hpp"
#include "report/writers.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;
using namespace attnctl::report;

namespace {

std::string svg_of(const HeatmapPage& page, const PictureOptions& options = {}) {
  const test::TempDir folder;
  OutputFile out(folder.path() / "a.svg");
  write_picture(out, page, PictureFormat::svg, options);
  out.commit();
  return test::slurp(folder.path() / "a.svg");
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Returns true if every element of an SVG is closed and every & is escaped, which XML requires.
bool is_well_formed(std::string_view text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    if (end == std::string_view::npos) return false;
    const std::string_view tag = text.substr(at + 1, end - at - 1);
    if (tag.starts_with('?') || tag.ends_with('/')) continue;
    const std::string name(tag.substr(0, tag.find_first_of(" >")));
    if (!tag.starts_with('/')) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name.substr(1)) {
      return false;
    } else {
      open.pop_back();
    }
  }
  for (std::size_t at = text.find('&'); at != std::string_view::npos; at = text.find('&', at + 1)) {
    const std::string_view name = text.substr(at, text.find(';', at) - at + 1);
    if (name != "&amp;" && name != "&lt;" && name != "&gt;" && name != "&quot;" && name != "&#39;")
      return false;
  }
  return open.empty();
}

std::vector<std::string> heads(std::size_t n) {
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < n; ++i) labels.push_back(std::string("Head ").append(std::to_string(i)));
  return labels;
}

HeatmapPage similarity() {
  return {"Subspace Similarity",
          {true, -1, 1, "Cosine"},
          1,
          {{"", "Head", "Head", heads(2), heads(2),
            make_tensor({2, 2}, std::vector<float>{1, -0.5F, -0.501F, -0.004F})}}};
}

/// Returns CIELAB L* of a colour of sRGB, from 0 (black) to 100 (white). Approximate for very dark colours.
double lightness(Colour colour) {
  const auto linear = [](std::uint8_t level) {
    const double c = level / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  const double y =
      0.2126729 * linear(colour.red) + 0.7151522 * linear(colour.green) + 0.0721750 * linear(colour.blue);
  return 116 * std::cbrt(y) - 16;
}

HeatmapPage square(std::size_t side, std::size_t panels) {
  HeatmapPage page{"Patterns", {false, 0, 1, "Weight"}, 4, {}};
  std::vector<float> values(side * side);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 101) / 101.0F;
  const Tensor array = make_tensor({side, side}, std::move(values));
  for (std::size_t i = 0; i < panels; ++i)
    page.heatmaps.push_back({std::to_string(i), "Key", "Query", {}, {}, array});
  return page;
}

}  // namespace

TEST_CASE("a similarity heatmap has labels, cell values and a colour bar") {
  const std::string svg = svg_of(similarity());
  CHECK(is_well_formed(svg));
  for (const char* text :
       {">Subspace Similarity<", ">Head<", ">Head 0<", ">Head 1<", ">Cosine<", ">-1<", ">0<", ">-0.50<",
        "<title>Head 0, Head 1: -0.5</title>", "<title>Head 1, Head 1: -0.004</title>"}) {
    CAPTURE(text);
    CHECK(svg.find(text) != std::string::npos);
  }
  CHECK(count(svg, "\"#67001f\"><title>") == 1);  // 1 has the darkest red
  CHECK(count(svg, ">-0.50<") == 2);
  CHECK(count(svg, "fill=\"#ffffff\">-0.50<") == 1);  // white above 0.5 in magnitude, but not for 0.5
  CHECK(count(svg, "fill=\"#ffffff\">1.00<") == 1);
  CHECK(svg.find("0.00<") == std::string::npos);  // no number below 0.01 in magnitude
}

TEST_CASE("the colours of a scale") {
  CHECK(hex(colour_at(colormap(true), 0.5)) == "#ffffff");
  CHECK(hex(colour_at(colormap(true), 0)) == "#053061");
  CHECK(hex(colour_at(colormap(true), 1)) == "#67001f");
  CHECK(hex(colour_at(colormap(true), 7)) == "#67001f");
  CHECK(hex(colour_at(colormap(true), 0.65)) == "#f9c0a5");  // the middle between fddbc7 and f4a582
  CHECK(hex(colour_at(colormap(false), 0)) == "#ffffff");
  for (int i = 0; i <= 100; ++i) {  // perceptually uniform: lightness decreases in equal steps
    CAPTURE(i);
    CHECK(lightness(colour_at(colormap(false), i / 100.0)) == doctest::Approx(100 - 0.79 * i).epsilon(0.015));
  }
  for (const bool diverging : {false, true}) {
    for (int i = 0; i < 100; ++i) {  // darker away from the middle, so that lightness orders the values
      const Colour near = colour_at(colormap(diverging), 0.5 + i / 200.0);
      const Colour far = colour_at(colormap(diverging), 0.5 + (i + 1) / 200.0);
      CHECK(near.red + near.green + near.blue >= far.red + far.green + far.blue);
    }
  }
}

TEST_CASE("colormaps: text has contrast, and the default ones have names") {
  CHECK(colormap_names() ==
        std::vector<std::string>{"blues", "rdbu_r", "viridis", "magma", "cividis", "greys", "puor"});
  for (const std::string& name : colormap_names()) {
    CAPTURE(name);
    const Colormap& map = colormap(false, name);
    const std::string svg = svg_of(similarity(), {.colormap = name});
    CHECK(is_well_formed(svg));
    for (const Colour& stop : map.stops) CHECK(count(svg, "stop-color=\"" + hex(stop) + "\"") == 1);
    CHECK(count(svg, "\"" + hex(map.stops.back()) + "\"><title>Head 0, Head 0: 1<") == 1);
    for (int i = 0; i <= 100; ++i) {
      const double place = i / 100.0;
      const bool dark_text = place >= map.light_from && place <= map.light_to;
      CAPTURE(place);
      CHECK((dark_text ? lightness(colour_at(map, place)) > 55 : lightness(colour_at(map, place)) < 70));
    }
  }
  CHECK(svg_of(similarity(), {.colormap = "rdbu_r"}) == svg_of(similarity()));
  CHECK(svg_of(square(5, 2), {.colormap = "blues"}) == svg_of(square(5, 2)));
  CHECK(svg_of(square(100, 1), {.colormap = "magma"}).find("<path fill=\"#000004\"") != std::string::npos);
  HeatmapPage page = similarity();
  page.heatmaps[0].values = make_tensor({2, 2}, std::vector<double>(4, std::nan("")));
  CHECK(count(svg_of(page, {.colormap = "greys"}), "\"#fee0b6\"><title>") == 4);
}

TEST_CASE("the title of a picture: escaped text, or none") {
  HeatmapPage page = similarity();
  page.subtitle = {"a model"};
  const std::string svg = svg_of(page, {.title = "a < \"b\" & 'c'"});
  CHECK(is_well_formed(svg));
  for (const char* text : {"<title>a &lt; &quot;b&quot; &amp; &#39;c&#39;</title>",
                           ">a &lt; &quot;b&quot; &amp; &#39;c&#39;</text>"})
    CHECK_MESSAGE(svg.find(text) != std::string::npos, text);
  CHECK(svg.find("Subspace Similarity") == std::string::npos);
  CHECK(svg.find("a model") == std::string::npos);
  CHECK(svg_of(page).find(">a model<") != std::string::npos);
  const std::string none = svg_of(page, {.title = ""});
  CHECK(is_well_formed(none));
  for (const char* text : {"Subspace Similarity", "a model"})
    CHECK_MESSAGE(none.find(text) == std::string::npos, text);
}

TEST_CASE("the width scales the picture, and the font size its texts") {
  const std::string svg = svg_of(similarity());
  const std::string narrow = svg_of(similarity(), {.width = 300});
  CHECK(svg.find("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"300\"") == std::string::npos);
  CHECK(narrow.find("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"300\"") != std::string::npos);
  CHECK(svg.substr(svg.find("viewBox")) == narrow.substr(narrow.find("viewBox")));

  CHECK(svg_of(similarity(), {.font_size = 9}) == svg);
  CHECK(svg.find("width=\"72\" height=\"72\"") != std::string::npos);
  const std::string large = svg_of(similarity(), {.font_size = 18});
  CHECK(large.find("width=\"36\" height=\"36\"") != std::string::npos);  // drawn twice as large
  const auto number_after = [&](const char* text) {
    return std::stoi(large.substr(large.find(text) + std::string(text).size()));
  };
  CHECK(number_after(" width=\"") == 2 * number_after("viewBox=\"0 0 "));
}

TEST_CASE("fixed ends of the scale") {
  const HeatmapPage page = similarity();  // 1, -0.5, -0.501, -0.004
  const std::string svg = svg_of(page, {.vmin = -0.4, .vmax = 0.4});
  CHECK(count(svg, "\"#67001f\"><title>") == 1);
  CHECK(count(svg, "\"#053061\"><title>") == 2);
  CHECK(svg.find(">0.4<") != std::string::npos);
  CHECK(svg_of(page, {.vmin = -0.4}) == svg);  // a diverging scale is symmetric
  CHECK(svg_of(page, {.vmax = 0.4}) == svg);
  const std::string negative = svg_of(page, {.vmin = -2, .vmax = -1});
  for (const char* tick : {">-2<", ">-1.8<", ">-1<"}) CHECK(negative.find(tick) != std::string::npos);

  HeatmapPage sequential = page;
  sequential.scale = {.diverging = false, .low = 0, .high = 1, .label = "Value"};
  CHECK(count(svg_of(sequential, {.vmin = 0.5}), "\"#ffffff\"><title>") == 3);
  CHECK(count(svg_of(sequential, {.vmax = 2}), "\"#4e99c9\"><title>") == 1);  // 1 is in the middle
  try {
    svg_of(sequential, {.vmin = 2});
    FAIL("drawn");
  } catch (const Error& error) {
    CHECK(error.status() == Status::usage);
    CHECK(std::string(error.what()) == "--vmin: the scale would go from 2 to 1; give --vmin and --vmax");
  }
  sequential.heatmaps[0].values = make_tensor({2, 2}, std::vector<double>{0.01, 0.01, 0.02, 0.9});
  sequential.fit_scale(true);
  CHECK(svg_of(sequential).find(">Value (logarithmic scale)<") != std::string::npos);
  CHECK(svg_of(sequential, {.vmin = 0}).find(">Value<") != std::string::npos);
}

TEST_CASE("the label of the scale is right of its numbers") {
  const std::string svg = svg_of(similarity(), {.vmin = -0.00015});
  const auto x_of = [&](const std::string& text) {
    const std::size_t element = svg.rfind("<text x=\"", svg.find(">" + text + "<"));
    return std::stod(svg.substr(element + 9));
  };
  CHECK(x_of("Cosine") - kAxisFont > x_of("-0.00015") + text_width("-0.00015", 12));
  CHECK(x_of("Cosine") - kAxisFont < x_of("-0.00015") + text_width("-0.00015", 12) + 10);
}

TEST_CASE("labels are escaped and shortened") {
  HeatmapPage page = similarity();
  const std::string long_label(60, 'w');
  page.title = "a & b";
  page.heatmaps[0].x_labels = {"\"><script>alert(1)</script>", "\x1b]0;x\x07'"};
  page.heatmaps[0].y_labels = {long_label, "\xff\xef\xbf\xbf]]>"};
  const std::string svg = svg_of(page);
  CHECK(is_well_formed(svg));
  CHECK(svg.find("<script") == std::string::npos);
  CHECK(svg.find("&quot;&gt;&lt;script&gt;") != std::string::npos);
  CHECK(svg.find('\x1b') == std::string::npos);
  CHECK(svg.find("\\x1b]0;x\\x07&#39;") != std::string::npos);
  CHECK(svg.find("\xef\xbf\xbf") == std::string::npos);
  CHECK(svg.find(">" + shortened(long_label, 20) + "<") != std::string::npos);
  CHECK(svg.find("<title>" + long_label + ", ") != std::string::npos);
}

TEST_CASE("undefined values are grey and have no number") {
  HeatmapPage page = similarity();
  const float not_a_number = std::numeric_limits<float>::quiet_NaN();
  page.heatmaps[0].values = make_tensor({2, 2}, std::vector<float>(4, not_a_number));
  const std::string svg = svg_of(page);
  CHECK(count(svg, "fill=\"#d9d9d9\"") == 4);
  CHECK(count(svg, ": no value</title>") == 4);
  CHECK(svg.find("nan") == std::string::npos);
}

TEST_CASE("large matrices have no numbers in their cells and thin labels, their size is bounded") {
  CHECK(count(svg_of(square(32, 1)), "<text") > 32 * 32);
  CHECK(count(svg_of(square(33, 1)), "<text") < 100);
  const std::string largest = svg_of(square(500, 1));
  CHECK(is_well_formed(largest));
  CHECK(count(largest, "<text") < 200);
  CHECK(largest.size() < 5000000);
  try {
    svg_of(square(501, 1));
    FAIL("drawn");
  } catch (const Error& error) {
    CHECK(error.status() == Status::limit);
    CHECK(std::string(error.what()).find("251001 cells") != std::string::npos);
    CHECK(std::string(error.what()).find("another --format") != std::string::npos);
  }
}

TEST_CASE("a grid shares its colour bar and the labels at its edge") {
  const std::string svg = svg_of(square(5, 8));
  CHECK(is_well_formed(svg));
  CHECK(count(svg, "linearGradient id") == 1);
  CHECK(count(svg, ">Key<") == 1);
  CHECK(count(svg, ">Query<") == 1);
  CHECK(count(svg, ">7<") == 1);  // the title of the last panel
  // Ticks 0 to 4 below four panels and to the left of two, and the titles of the panels.
  CHECK(count(svg, ">3<") == 4 + 2 + 1);
  HeatmapPage unlike = square(5, 8);
  unlike.heatmaps[3].x_labels = heads(5);
  CHECK(count(svg_of(unlike), ">3<") == 7 + 8 + 1);
}

TEST_CASE("a title that is wider than its heatmap is broken into lines") {
  HeatmapPage page = square(3, 2);
  page.heatmaps[1].title = "syntactic case to_dependent";
  const std::string svg = svg_of(page);
  CHECK(svg.find(">syntactic case ") != std::string::npos);
  CHECK(svg.find("to_dependent<") != std::string::npos);
  CHECK(svg.find(">syntactic case to_dependent<") == std::string::npos);
}

TEST_CASE("values below 0.01 are drawn only on pages with small values") {
  HeatmapPage page = similarity();
  CHECK(svg_of(page).find(">0.00<") == std::string::npos);
  page.small_values = true;
  CHECK(svg_of(page).find(">0.00<") != std::string::npos);  // of -0.004
}

TEST_CASE("a grid has at most 6 columns, and 4 to 6 columns from 7 heatmaps on") {
  const auto columns = [](std::size_t side, std::size_t panels) {
    HeatmapPage page = square(side, panels);
    page.columns = 0;
    const std::string svg = svg_of(page);
    const std::size_t row = svg.find(' ', svg.find("<g transform=\"translate(") + 3);
    return count(svg,
                 svg.substr(row, svg.find(')', row) - row) + ")\">");  // panels at the height of the first
  };
  CHECK(columns(5, 3) == 3);
  CHECK(columns(5, 6) == 6);
  CHECK(columns(5, 8) == 4);
  CHECK(columns(5, 10) == 5);
  CHECK(columns(5, 12) == 6);
  CHECK(columns(45, 12) == 4);
}

TEST_CASE("long lines of a subtitle are wrapped") {
  HeatmapPage page = similarity();
  page.subtitle = {"model", "an  <unusual>"};
  for (int i = 0; i < 20; ++i) page.subtitle[1] += " word" + std::to_string(i);
  const std::string svg = svg_of(page);
  CHECK(is_well_formed(svg));
  CHECK(svg.find(">model<") != std::string::npos);
  CHECK(svg.find(">an  &lt;unusual&gt; word0 ") != std::string::npos);
  CHECK(svg.find("word19<") != std::string::npos);
  CHECK(subtitle_lines(page.subtitle, 480).size() == 4);
  CHECK(subtitle_lines({std::string(100, 'w')}, 480).size() == 2);
  CHECK(subtitle_lines({std::string(5000, 'w')}, 480).size() <= 5);
  CHECK(subtitle_lines({}, 480).empty());
}

TEST_CASE("a side of more than 32,767 pixels is an error") {
  HeatmapPage page = square(2, 1200);
  page.columns = 1;
  try {
    svg_of(page);
    FAIL("drawn");
  } catch (const Error& error) {
    CHECK(error.status() == Status::limit);
    CHECK(std::string(error.what()).find("up to 32767") != std::string::npos);
  }
}

TEST_CASE("a PNG has one pixel per unit if two are too many for cairo, and a bad SVG is an error") {
  const test::TempDir folder;
  const std::filesystem::path path = folder.path() / "a.png";
  const std::string head = R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 )";
  const auto sides = [&](const std::string& size) {
    OutputFile out(path);
    write_svg_as(out, head + size + R"("><rect width="9" height="9"/></svg>)", PictureFormat::png);
    out.commit();
    return test::slurp(path).substr(16, 8);
  };
  CHECK(sides("16383 3") == std::string("\0\0\x7f\xfe\0\0\0\6", 8));
  CHECK(sides("16384 3") == std::string("\0\0\x40\0\0\0\0\3", 8));
  for (const PictureFormat format : {PictureFormat::png, PictureFormat::pdf}) {
    OutputFile out(path);
    try {
      write_svg_as(out, head, format);
      FAIL("written");
    } catch (const Error& error) {
      CHECK(error.status() == Status::environment);
      CHECK(std::string(error.what()).find("a.png: cannot draw the picture: ") != std::string::npos);
      CHECK(out.position() == 0);
    }
  }
}

TEST_CASE("characters that are in no installed font give a warning") {
  const test::TempDir folder;
  const auto warnings_of = [&](const std::string& label) {
    Warnings warnings;
    HeatmapPage page = similarity();
    page.heatmaps[0].x_labels = {label, "b"};
    OutputFile out(folder.path() / "a.png");
    write_picture(out, page, PictureFormat::png, {.warnings = &warnings});
    out.commit();
    return warnings.list();
  };
  CHECK(warnings_of("e").empty());
  const std::vector<Warning> found = warnings_of("\U0010FFFD\U0010FFFD");  // of a plane for private use
  REQUIRE(found.size() == 1);
  CHECK(found[0].code == "missing_glyphs");
  CHECK(found[0].count == 2);
}

TEST_CASE("a font family that is not installed gives a warning") {
  const test::TempDir folder;
  const auto drawn = [&](const std::string& family, PictureFormat format) {
    Warnings warnings;
    OutputFile out(folder.path() / "a");
    write_picture(out, similarity(), format, {.font_family = family, .warnings = &warnings});
    out.commit();
    return std::pair(test::slurp(folder.path() / "a"), warnings.list());
  };
  const auto [plain, none] = drawn("", PictureFormat::png);
  const auto [serif, of_serif] = drawn("serif", PictureFormat::png);
  CHECK(none.empty());
  CHECK(of_serif.empty());
  CHECK(plain != serif);
  CHECK(drawn("DejaVu Sans", PictureFormat::png).second.empty());
  const auto missing = drawn("No Such Font", PictureFormat::png).second;
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].code == "missing_font");
  CHECK(drawn("", PictureFormat::svg).first.find(" font-family=\"'Helvetica Neue', ") != std::string::npos);
  CHECK(drawn("serif", PictureFormat::svg).first.find(" font-family=\"serif\" fill") != std::string::npos);
  CHECK(drawn("Noto Sans", PictureFormat::svg).first.find("\"'Noto Sans', 'Helv") != std::string::npos);
}

TEST_CASE("a scale fits the values") {
  const auto fitted = [](const std::vector<double>& values, bool diverging, bool may_be_logarithmic) {
    HeatmapPage page{"", {.diverging = diverging, .label = "Value"}, 0, {}};
    page.heatmaps.push_back({"", "", "", {}, {}, make_tensor({1, values.size()}, values)});
    page.fit_scale(may_be_logarithmic);
    return page;
  };
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  CHECK(fitted({0.02, -0.04, kNone}, true, false).scale.low == -0.04);
  CHECK(fitted({0.02, -0.04, kNone}, true, false).scale.high == 0.04);
  CHECK(fitted({0, 0}, false, true).scale.high == 1);
  CHECK_FALSE(fitted({0.1, 0.2, 0.3}, false, true).scale.logarithmic);
  CHECK_FALSE(fitted({0.01, 0.02, 0.9}, false, false).scale.logarithmic);
  const HeatmapPage skewed = fitted({0, 0.01, 0.02, 0.9}, false, true);
  CHECK(skewed.scale.logarithmic);
  CHECK(skewed.scale.low == 0.005);
  const std::string svg = svg_of(skewed);
  for (const char* text : {">Value (logarithmic scale)<", ">0.01<", ">0.02<", ">0.5<"})
    CHECK_MESSAGE(svg.find(text) != std::string::npos, text);
  CHECK(count(svg, "\"#ffffff\"><title>") == 1);  // 0, but not the smallest value
  CHECK(fitted({1e-9, 1e-8, 1}, false, true).scale.low == 1e-3);
}

TEST_CASE("runs of equal colour are one path in each panel") {
  HeatmapPage page = similarity();
  page.scale.diverging = false;
  page.scale.low = 0;
  page.heatmaps[0].x_labels.clear();
  page.heatmaps[0].y_labels.clear();
  std::vector<double> values(std::size_t{100} * 100, 0.0);
  values[0] = values[1] = 1.0;
  page.heatmaps[0].values = make_tensor({100, 100}, std::move(values));
  const std::string svg = svg_of(page);
  CHECK(count(svg, "<path fill=") == 1);
  CHECK(svg.find("<path fill=\"#08306b\" d=\"M0 0H2v1H0z\"/>") != std::string::npos);
}

TEST_CASE("labels that do not fit the matrix throw") {
  HeatmapPage page = similarity();
  page.heatmaps[0].x_labels = heads(3);
  CHECK_THROWS_AS(svg_of(page), std::invalid_argument);
  page = similarity();
  page.heatmaps[0].values = make_tensor({4}, std::vector<float>(4));
  CHECK_THROWS_AS(svg_of(page), std::invalid_argument);
  page = similarity();
  page.heatmaps[0].values = make_tensor({2, 2}, std::vector<std::int64_t>(4));
  CHECK_THROWS_AS(svg_of(page), std::invalid_argument);
  page.heatmaps.clear();
  CHECK_THROWS_AS(svg_of(page), std::invalid_argument);
}

TEST_CASE("trees that do not fit the matrix throw") {
  const HeatmapPage page = similarity();
  const auto draw = [&](const ColumnTree& tree) {
    HeatmapPage with_tree = page;
    with_tree.heatmaps[0].tree = tree;
    svg_of(with_tree);
  };
  CHECK_NOTHROW(draw({"Distance", {{0, 1, 0.5}}, {"a", "b"}, {0, 1}}));
  CHECK_THROWS_AS(draw({"Distance", {{0, 2, 0.5}}, {}, {}}), std::invalid_argument);
  CHECK_THROWS_AS(draw({"Distance", {{0, 1, 0.5}, {2, 3, 0.5}}, {}, {}}), std::invalid_argument);
  CHECK_THROWS_AS(draw({"Distance", {{0, 1, 0.5}}, {"a", "b"}, {0, 2}}), std::invalid_argument);
  CHECK_THROWS_AS(draw({"Distance", {{0, 1, 0.5}}, {"a", "b"}, {0}}), std::invalid_argument);
}

TEST_CASE("the width of text on a terminal") {
  struct Row {
    std::string_view text;
    std::size_t width;
    std::string_view shortened_to_4;
  };
  for (const Row& row : {
           Row{"", 0, ""},
           Row{"abcd", 4, "abcd"},
           Row{"abcde", 5, "abc\xe2\x80\xa6"},
           Row{"\xc4\xa0it", 3, "\xc4\xa0it"},
           Row{"\xe6\x97\xa5\xe6\x9c\xac", 4, "\xe6\x97\xa5\xe6\x9c\xac"},
           Row{"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 6, "\xe6\x97\xa5\xe2\x80\xa6"},
           Row{"e\xcc\x81t", 2, "e\xcc\x81t"},
           Row{"\xf0\x9f\x99\x82", 2, "\xf0\x9f\x99\x82"},
       }) {
    CAPTURE(row.text);
    CHECK(display_width(row.text) == row.width);
    CHECK(shortened(row.text, 4) == row.shortened_to_4);
  }
}

TEST_CASE("coordinates are short") {
  CHECK(coordinate(3) == "3");
  CHECK(coordinate(3.14159) == "3.14");
  CHECK(coordinate(-0.001) == "0");
  CHECK(coordinate(120) == "120");
  CHECK(coordinate(0.5) == "0.5");
}
