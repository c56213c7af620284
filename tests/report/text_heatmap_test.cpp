#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "report/colour_map.hpp"
#include "report/text.hpp"
#include "report/text_width.hpp"

namespace attnctl {
namespace {

TextMatrix matrix(std::vector<float> values, std::size_t columns, std::vector<std::string> rows = {},
                  std::vector<std::string> names = {}) {
  const std::size_t height = values.size() / columns;
  return {.corner = "q",
          .row_labels = std::move(rows),
          .column_labels = std::move(names),
          .values = make_array({height, columns}, std::move(values))};
}

TEST_CASE("a heatmap in shades, labels down the columns, wide characters and marks counted") {
  std::string text;
  append_text_heatmap(text,
                      matrix({1, 0, 0.04F, 0.05F, 0.25F, 0.75F}, 3, {"a", "動物"}, {"ab", "中", "e\u0301"}));
  CHECK(text ==
        "     a\n"
        "q    b 中e\u0301\n"
        "a    ██\n"
        "動物 ░░▒▒██\n"
        "weight 0 ░░▒▒▒▓▓███ 1\n");
}

TEST_CASE("a heatmap in 256 colours") {
  std::string text;
  append_text_heatmap(text, matrix({0, 1, std::numeric_limits<float>::quiet_NaN(), 0}, 2), {.colours = true});
  // White; (0, 95, 95), the nearest colour to the dark end of the blues, (8, 48, 107); grey for an undefined
  // weight.
  CHECK(text.find("0 \x1b[48;5;231m  \x1b[48;5;23m  \x1b[0m\n") != std::string::npos);
  CHECK(text.find("1 \x1b[48;5;247m  \x1b[48;5;231m  \x1b[0m\n") != std::string::npos);
}

TEST_CASE("what does not fit a heatmap is left out, and said") {
  std::string text;
  TextMatrix large = matrix(std::vector<float>(200, 0.5F), 20);
  large.most_rows = 3;
  append_text_heatmap(text, large, {.width = 14});
  CHECK(text.find("(3 of 10 rows and 6 of 20 columns)\n") != std::string::npos);
  CHECK(text.find("\n0 ▓▓▓▓▓▓▓▓▓▓▓▓\n") != std::string::npos);
}

TEST_CASE("small heatmaps side by side") {
  const std::vector<TextMatrix> three(3, matrix({1, 0, 0, 1}, 2));
  std::string text;
  append_text_heatmaps(text, three, {.width = 6});
  CHECK(text == "q   q\n█   █\n █   █\n\nq\n█\n █\nweight 0 ░░▒▒▒▓▓███ 1\n");
  text.clear();
  append_text_heatmaps(text, {matrix({1, 0, 0, 1, 1, 1}, 2)}, {.colours = true});
  CHECK(
      text.starts_with("q\n"
                       "\x1b[38;5;23;48;5;231m▀\x1b[38;5;231;48;5;23m▀\x1b[0m\n"
                       "\x1b[38;5;23;49m▀\x1b[38;5;23;49m▀\x1b[0m\n"));
}

TEST_CASE("columns of a terminal") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("中文") == 4);
  CHECK(display_width("ｱﾞ") == 2);       // half-width
  CHECK(display_width("Ａ") == 2);       // full-width
  CHECK(display_width("e\u0301") == 1);  // combining mark
  CHECK(display_width("\U0001F600") == 2);
  CHECK(display_width("\u1112\u1161\u11AB") == 2);  // Hangul in separate parts
  CHECK(display_width("\uD55C") == 2);
  CHECK(display_width("ก\u0E34") == 1);  // Thai vowel above
  CHECK(display_width("\u200B") == 0);
}

TEST_CASE("the nearest colours of a terminal") {
  CHECK(terminal_colour({0, 0, 0}) == 16);
  CHECK(terminal_colour({255, 255, 255}) == 231);
  CHECK(terminal_colour({255, 0, 0}) == 196);
  CHECK(terminal_colour({128, 128, 128}) == 244);
  CHECK(terminal_colour({95, 135, 175}) == 67);
}

}  // namespace
}  // namespace attnctl
