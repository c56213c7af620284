#include <algorithm>
#include <cstdint>
#include <dlfcn.h>
#include <exception>
#include <memory>
#include <new>

#include "base/child.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/numbers.hpp"
#include "report/writers.hpp"

namespace attnctl::report {
namespace {

// The parts of librsvg, GLib, cairo and Pango that are used here. Their headers need not be installed.
// Objects are void*, and a status of cairo is an int, 0 for success.
struct RsvgRectangle {
  double x, y, width, height;
};
struct GlibError {
  std::uint32_t domain;
  int code;
  char* message;
};
using CairoWriter = int(void* closure, const unsigned char* bytes, unsigned int size);
constexpr int kCairoNoMemory = 1;  // a status
constexpr int kCairoRgb24 = 1, kCairoCreateDate = 5;

/// A function of librsvg, or of GLib, cairo and Pango, which librsvg loads.
template <typename Type>
struct Symbol {
  explicit Symbol(const char* name) {
    void* const library = dlopen("librsvg-2.so.2", RTLD_LAZY | RTLD_LOCAL);  // stays loaded
    if (library != nullptr) address = reinterpret_cast<Type*>(dlsym(library, name));
    if (address != nullptr) return;
    const std::string reason = dlerror();
    if (means_no_memory(reason)) throw std::bad_alloc();
    fail(Status::usage, "{}; install the Debian package librsvg2-2, or write svg", escaped(reason));
  }
  operator Type*() const { return address; }
  Type* address = nullptr;
};

struct PictureLibrary {
  Symbol<void*(const unsigned char*, std::size_t, GlibError**)> read{"rsvg_handle_new_from_data"};
  Symbol<void(void*, void*, void*, void*, void*, int* has_view_box, RsvgRectangle* view_box)> sizes{
      "rsvg_handle_get_intrinsic_dimensions"};
  Symbol<int(void*, void* cairo, const RsvgRectangle*, GlibError**)> draw{"rsvg_handle_render_document"};
  Symbol<void(void*)> release{"g_object_unref"};
  Symbol<void(GlibError*)> release_error{"g_error_free"};
  Symbol<void*(int format, int width, int height)> new_image{"cairo_image_surface_create"};
  Symbol<int(void*, CairoWriter*, void*)> write_png{"cairo_surface_write_to_png_stream"};
  Symbol<void*(CairoWriter*, void*, double, double)> new_pdf{"cairo_pdf_surface_create_for_stream"};
  Symbol<void(void*, int key, const char*)> set_metadata{"cairo_pdf_surface_set_metadata"};
  Symbol<void(void*)> finish{"cairo_surface_finish"};
  Symbol<int(void*)> surface_status{"cairo_surface_status"};
  Symbol<void(void*)> release_surface{"cairo_surface_destroy"};
  Symbol<void*(void*)> new_cairo{"cairo_create"};
  Symbol<int(void*)> cairo_status{"cairo_status"};
  Symbol<void(void*)> release_cairo{"cairo_destroy"};
  Symbol<const char*(int)> status_text{"cairo_status_to_string"};
  Symbol<void*()> fonts{"pango_cairo_font_map_get_default"};
  Symbol<void*(void*)> new_context{"pango_font_map_create_context"};
  Symbol<void*(void*)> new_layout{"pango_layout_new"};
  Symbol<void(void*, const char*, int size)> set_text{"pango_layout_set_text"};
  Symbol<int(void*)> unknown_glyphs{"pango_layout_get_unknown_glyphs_count"};
  Symbol<void*()> new_description{"pango_font_description_new"};
  Symbol<void(void*, const char*)> set_family{"pango_font_description_set_family"};
  Symbol<const char*(void*)> family_of{"pango_font_description_get_family"};
  Symbol<void(void*)> release_description{"pango_font_description_free"};
  Symbol<void*(void* context, void* description)> load_font{"pango_context_load_font"};
  Symbol<void*(void*)> describe{"pango_font_describe"};
};

const PictureLibrary& picture_library() {
  static const PictureLibrary loaded{};
  return loaded;
}

using PictureObject = std::unique_ptr<void, void (*)(void*)>;

/// Appends bytes to a std::string. Throws nothing, because cairo is written in C.
int append_bytes(void* text, const unsigned char* bytes, unsigned int size) {
  try {
    static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(bytes), size);
    return 0;
  } catch (const std::exception&) {
    return kCairoNoMemory;
  }
}

/// Throws Error if librsvg set `error`, which is freed, or if the status of cairo is not 0.
void check_drawing(GlibError* error, int status) {
  if (error == nullptr && status == 0) return;
  const PictureLibrary& use = picture_library();
  const std::string reason = error != nullptr ? error->message : use.status_text(status);
  if (error != nullptr) use.release_error(error);
  const bool no_memory = status == kCairoNoMemory || reason.find("NoMemory") != std::string::npos;
  fail(no_memory ? Status::limit : Status::environment, "{}", reason);
}

/// Warns of the characters of an SVG that are in no installed font. ASCII texts are not checked.
void warn_of_missing_glyphs(const std::string& svg, Warnings& warnings) {
  std::string texts;
  std::size_t end = 0;
  for (auto at = svg.find("<text"); at != std::string::npos; at = svg.find("<text", end)) {
    end = std::min(svg.find("</text>", at), svg.size());
    const std::string_view element = std::string_view(svg).substr(at, end - at);
    if (std::ranges::any_of(element, [](char c) { return (c & 0x80) != 0; })) texts += element;
  }
  if (texts.empty()) return;
  const PictureLibrary& use = picture_library();
  const PictureObject context(use.new_context(use.fonts()), use.release);
  const PictureObject layout(use.new_layout(context.get()), use.release);
  use.set_text(layout.get(), texts.data(), static_cast<int>(texts.size()));
  const int missing = use.unknown_glyphs(layout.get());
  if (missing > 0)
    warnings.add("missing_glyphs",
                 "a character is in no installed font and is drawn as a box; install a font with this "
                 "character, such as the Debian package fonts-noto-cjk, or write svg",
                 static_cast<std::uint64_t>(missing));
}

/// Warns if no installed font has this name. "serif" and "monospace" are kinds of fonts, not names.
void warn_of_missing_font(const std::string& family, Warnings& warnings) {
  if (family == "serif" || family == "sans-serif" || family == "monospace") return;
  const PictureLibrary& use = picture_library();
  const PictureObject context(use.new_context(use.fonts()), use.release);
  const PictureObject wanted(use.new_description(), use.release_description);
  use.set_family(wanted.get(), family.c_str());
  const PictureObject font(use.load_font(context.get(), wanted.get()), use.release);
  const PictureObject found(font ? use.describe(font.get()) : nullptr, use.release_description);
  const char* const name = found ? use.family_of(found.get()) : nullptr;
  if (name == nullptr || lower_case(name) != lower_case(family))
    warnings.add("missing_font",
                 fmt::format("--font-family: no installed font is named {}; the picture has another font; "
                             "fc-list : family shows the names",
                             in_quotes(family)));
}

/// Returns the bytes of the picture. Runs in a child process.
std::string draw(const std::string& svg, PictureFormat format, const PictureOptions& options,
                 Warnings& warnings) {
  warn_of_missing_glyphs(svg, warnings);
  if (!options.font_family.empty()) warn_of_missing_font(options.font_family, warnings);
  const bool png = format == PictureFormat::png;
  const PictureLibrary& use = picture_library();
  GlibError* error = nullptr;
  const auto* const text = reinterpret_cast<const unsigned char*>(svg.data());
  const PictureObject picture(use.read(text, svg.size(), &error), use.release);
  check_drawing(error, 0);
  RsvgRectangle page{};
  int has_view_box = 0;
  use.sizes(picture.get(), nullptr, nullptr, nullptr, nullptr, &has_view_box, &page);
  constexpr double kMostSide = 32767;  // of an image of cairo
  const double zoom = options.zoom();
  const double unit = !png ? 0.75 : 2 * zoom * std::max(page.width, page.height) <= kMostSide ? 2 : 1;
  const double scale = options.width ? static_cast<double>(*options.width) / page.width : unit * zoom;
  page.width *= scale;
  page.height *= scale;
  // Rounds down, so that the white page covers each pixel; --width times a fraction is not exact.
  const auto pixels = [](double side) { return std::max(static_cast<int>(side + 1e-6), 1); };
  std::string bytes;
  const PictureObject surface(png ? use.new_image(kCairoRgb24, pixels(page.width), pixels(page.height))
                                  : use.new_pdf(append_bytes, &bytes, page.width, page.height),
                              use.release_surface);
  check_drawing(nullptr, use.surface_status(surface.get()));
  if (!png) use.set_metadata(surface.get(), kCairoCreateDate, nullptr);
  const PictureObject cairo(use.new_cairo(surface.get()), use.release_cairo);
  use.draw(picture.get(), cairo.get(), &page, &error);
  check_drawing(error, use.cairo_status(cairo.get()));
  if (png) check_drawing(nullptr, use.write_png(surface.get(), append_bytes, &bytes));
  use.finish(surface.get());
  check_drawing(nullptr, use.surface_status(surface.get()));
  return bytes;
}

}  // namespace

void require_picture_library() {
  const ChildResult child = run_in_child([] {
    (void)picture_library();
    return std::string();
  });
  if (child.failure) fail(*child.failure, "png and pdf need librsvg: {}", escaped(child.out));
}

void write_svg_as(OutputFile& out, const std::string& svg, PictureFormat format,
                  const PictureOptions& options) {
  if (format == PictureFormat::svg) return out.write(svg);
  const ChildResult child = run_in_child([&] {
    Warnings warnings;
    const std::string bytes = draw(svg, format, options, warnings);
    std::string lines;
    for (const Warning& warning : warnings.list())
      lines += fmt::format("{}\n{}\n{}\n", warning.code, warning.count, warning.message);
    return lines + "\n" + bytes;
  });
  const std::string complaints = shown(child.err.substr(0, child.err.find('\n')));
  if (child.failure)
    fail(*child.failure, "{}: cannot draw the picture: {}{}{}; write svg instead", out.name(),
         escaped(child.out), complaints.empty() ? "" : ": ", complaints);
  std::string_view rest = child.out;
  while (true) {
    const std::string_view code = take_line(rest);
    if (code.empty()) break;
    const auto count = parse_number(take_line(rest)).value();
    const std::string_view message = take_line(rest);
    if (options.warnings != nullptr) options.warnings->add(code, message, count);
  }
  if (options.warnings != nullptr && !complaints.empty())
    options.warnings->add("picture_library", fmt::format("a library that draws pictures: {}", complaints));
  out.write(rest);
}

}  // namespace attnctl::report

#ifdef __SANITIZE_ADDRESS__
/// fontconfig, which librsvg uses, hides its pointers, so LeakSanitizer does not find them.
// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libfontconfig\n";
}
/// Otherwise, standard error has a list of the suppressions that were used.
// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
extern "C" const char* __asan_default_options() {
  return "print_suppressions=0";
}
#endif
