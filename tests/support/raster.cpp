#include "support/raster.hpp"

#include <png.h>
#include <stdexcept>
#include <string_view>

#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

constexpr std::string_view kFonts = R"(<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>/usr/share/fonts/truetype/dejavu</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
)";

}  // namespace

Raster read_png(const std::string& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&image, path.c_str()) == 0) throw std::runtime_error(image.message);
  image.format = PNG_FORMAT_RGB;
  Raster raster{image.width, image.height, std::vector<std::uint8_t>(PNG_IMAGE_SIZE(image))};
  if (png_image_finish_read(&image, nullptr, raster.rgb.data(), 0, nullptr) == 0) {
    throw std::runtime_error(image.message);
  }
  return raster;
}

std::optional<Raster> rasterised(const std::string& svg, int zoom) {
  if (run_shell("command -v rsvg-convert").status != 0) return std::nullopt;
  const TempDir folder;
  const std::string from = folder.write("picture.svg", svg).string();
  const std::string to = (folder.path() / "picture.png").string();
  // Uses one wide font, so that the result does not depend on the machine.
  const std::string fonts = folder.write("fonts.conf", std::string(kFonts)).string();
  const RunResult result = run_shell("rsvg-convert --background-color=white --zoom=" + std::to_string(zoom) +
                                         " -o '" + to + "' '" + from + "'",
                                     {.input = {}, .environment = {{"FONTCONFIG_FILE", fonts}}});
  if (result.status != 0) throw std::runtime_error("rsvg-convert: " + result.err);
  return read_png(to);
}

}  // namespace attnctl::test
