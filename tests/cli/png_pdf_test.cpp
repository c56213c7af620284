// The pictures of SVG as PNG and PDF.
#include <cstddef>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/raster.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using Words = std::vector<std::string>;

const std::string kBert = "data/tiny-bert";
const std::string kSentences = "data/tiny-bert/sentences.jsonl";
const std::string kPngSignature = "\x89PNG\r\n\x1a\n";

Words with(Words command, const Words& more) {
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

/// Returns the width and height of an SVG.
std::pair<std::size_t, std::size_t> svg_size(const std::string& svg) {
  static const std::regex sides("width=\"([0-9]+)\" height=\"([0-9]+)\"");
  const std::string beginning = svg.substr(0, 400);
  std::smatch found;
  REQUIRE(std::regex_search(beginning, found, sides));
  return {std::stoul(found[1]), std::stoul(found[2])};
}

/// Returns a number of the header of a PNG.
std::size_t png_number(const std::string& png, std::size_t at) {
  std::size_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number = 256 * number + static_cast<unsigned char>(png.at(at + i));
  return number;
}

TEST_CASE("-o x.png and -o x.pdf write the picture of -o x.svg") {
  const TempDir folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  const auto drawn = [&](const Words& command, const char* name) {
    const RunResult result = run_attnctl(with(command, {"-o", path(name)}));
    REQUIRE_MESSAGE(result.status == 0, result.err);
    CHECK(result.out.empty());
    return slurp(path(name));
  };
  const Words analyze = {"analyze", kBert, "The cat sat."};
  for (const Words& command : {
           analyze,
           with(analyze, {"--from", "cat"}),
           with(analyze, {"--plot", "entropy"}),
           with(analyze, {"--show", "1.2", "--weighting", "norm"}),
           Words{"weights", kBert},
           Words{"study", kBert, "--input", kSentences, "--state", path("a.state")},
           Words{"merge", path("a.state")},
           Words{"experiment", "scaling", "--d-k", "4,16"},
       }) {
    CAPTURE(command[0]);
    const std::string svg = drawn(command, "x.svg");
    const std::string png = drawn(command, "x.png");
    const std::string pdf = drawn(command, "x.pdf");
    const std::pair<std::size_t, std::size_t> size = svg_size(svg);
    CHECK(png.starts_with(kPngSignature));
    CHECK(png_number(png, 16) == 2 * size.first);
    CHECK(png_number(png, 20) == 2 * size.second);
    CHECK(pdf.starts_with("%PDF-"));
    CHECK(pdf.find("CreationDate") == std::string::npos);
    CHECK(drawn(command, "y.pdf") == pdf);
    const std::string convert = "rsvg-convert --zoom=2 -o '" + path("y.png") + "' '" + path("x.svg") + "'";
    if (run_shell(convert).status == 0) {
      CHECK(read_png(path("x.png")).rgb == read_png(path("y.png")).rgb);
    } else {
      MESSAGE("not compared: rsvg-convert is not installed");
    }
  }
}

TEST_CASE("--width is the width of a PNG in pixels and of a PDF in points, --font-size enlarges both") {
  const auto drawn = [](const std::string& format, const Words& more) {
    const RunResult result =
        run_attnctl(with({"analyze", kBert, "The cat sat.", "--show", "1.2", "--format", format}, more));
    REQUIRE_MESSAGE(result.status == 0, result.err);
    CHECK(result.err.empty());
    return result.out;
  };
  for (const std::string width : {"301", "1999"}) {
    const Words options = {"--width", width, "--font-size", "13", "--title", "", "--colormap", "viridis"};
    CHECK(drawn("svg", options).find(" width=\"" + width + "\" height=") != std::string::npos);
    CHECK(png_number(drawn("png", options), 16) == std::stoul(width));
    const std::string pdf = drawn("pdf", options);
    if (pdf.find("/MediaBox") != std::string::npos)  // newer versions of cairo compress it
      CHECK(pdf.find("/MediaBox [ 0 0 " + width + " ") != std::string::npos);
  }
  CHECK(png_number(drawn("png", {"--width", "1"}), 16) == 1);
  const Words large = {"--font-size", "18"};
  const std::pair<std::size_t, std::size_t> size = svg_size(drawn("svg", large));
  CHECK(png_number(drawn("png", large), 16) == 2 * size.first);
  CHECK(png_number(drawn("png", large), 20) == 2 * size.second);
}

TEST_CASE("--format png, pdf and npz write to a pipe, but not to a terminal") {
  for (const std::string format : {"png", "pdf", "npz"}) {
    const RunResult result = run_attnctl({"weights", kBert, "--format", format});
    CHECK_MESSAGE(result.status == 0, result.err);
    CHECK(result.out.starts_with(format == "png" ? kPngSignature : format == "pdf" ? "%PDF-" : "PK"));
    const std::optional<RunResult> refused =
        run_in_terminal("attnctl weights data/tiny-bert --format " + format, 80);
    if (!refused) {
      MESSAGE("skipped: no pseudo-terminal can be opened");
      return;
    }
    CHECK(refused->status == 2);
    const std::string message =
        "attnctl: --format " + format + " cannot be written to a terminal: give -o FILE." + format;
    CHECK_MESSAGE(refused->out.find(message) != std::string::npos, refused->out);
  }
  const TempDir folder;
  const RunResult result =
      run_attnctl({"weights", kBert, "--format", "svg", "-o", (folder.path() / "x.png").string()});
  CHECK(result.status == 2);
  CHECK(result.err.find("contradicts the extension") != std::string::npos);
}

TEST_CASE("without librsvg, png and pdf are an error that names the package") {
  const TempDir folder;
  folder.write("librsvg-2.so.2", "");
  const RunOptions options = {.environment = {{"LD_LIBRARY_PATH", folder.path().string()}}};
  for (const char* name : {"x.png", "x.pdf"}) {
    const std::string path = folder.write(name, "old").string();
    const RunResult result = run_attnctl({"analyze", kBert, "--ids", "1", "-o", path}, options);
    CHECK(result.status == 2);
    CHECK_MESSAGE(result.err.find("install the Debian package librsvg2-2, or write svg") != std::string::npos,
                  result.err);
    CHECK(slurp(path) == "old");
  }
}

}  // namespace
}  // namespace attnctl::test
