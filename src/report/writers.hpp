#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "base/pool.hpp"
#include "results/results.hpp"

// The writers of JSON, CSV and pictures (SVG, PNG, PDF).
namespace attnctl::report {

/// The text format of numbers. Without `digits`, a number is written as the shortest text that reads back to
/// the same float32 or float64. With `digits`, it is written with this number of decimals, rounded to
/// nearest, ties to even. The text is a JSON number. Without `digits`, -0 is written as "-0.0". Integers have
/// no decimals. Values must be finite: the writers handle NaN and infinities themselves.
struct NumberFormat {
  static constexpr int kMostDigits = 20;
  /// Space that write() needs, in characters. The text of a number is never longer.
  static constexpr std::size_t kMostCharacters = 336;

  std::optional<int> digits;  // from 0 to kMostDigits

  /// Write a number at `to`, which must have space for kMostCharacters, and return the end of the text.
  char* write(char* to, float value) const;
  char* write(char* to, double value) const;
  static char* write(char* to, std::int64_t value);

  template <typename T>
  void append(std::string& text, T value) const {
    char buffer[kMostCharacters];
    text += std::string_view(buffer, write(buffer, value));
  }
};

/// Number of characters that write_shortest_float() may overwrite. The text itself has at most 16.
inline constexpr int kShortestFloatSpace = 24;

/// Writes the shortest decimal number that reads back to the same float32; of several such numbers, the one
/// nearest to the value. Returns the end of the text. The text is equal to that of std::to_chars(float). The
/// value must be finite.
///
/// This function exists because the JSON of attention patterns consists mostly of floats, and std::to_chars
/// of GCC 12 is slower: it takes 53 instead of 23 ns for an attention weight and 73 instead of 38 ns for
/// random bits. Doubles are rare and use std::to_chars.
char* write_shortest_float(char* to, float value);

/// The layout of JSON text: one object, or JSON Lines.
enum class JsonLayout { document, lines };

/// Options of the writers of JSON and CSV.
struct WriteOptions {
  NumberFormat number = {};
  Pool* pool = nullptr;                      // if not null, formats in parallel; the output is the same
  char separator = ',';                      // CSV: the character between columns
  JsonLayout layout = JsonLayout::document;  // used for JSON only
};

/// Writes a document, with the layout of `options`:
///
/// - As one JSON object. Each head field, each item of a section and each row of a matrix is on its own line.
/// - As JSON Lines: one line with the head fields, then one line per item of each section. The first field of
/// an item's line is "record", whose value is Section::record. An item of a List that is not a Record is
/// written as the field "value". The output receives only whole lines (OutputFile::write_whole_lines).
///
/// Numbers that are not finite become null. Tensors and tables are formatted in chunks, in parallel if
/// options.pool is not null, and written in order, so that their whole text is never in memory.
void write_json(OutputFile& out, const Document& document, const WriteOptions& options = {});

/// Writes a document with the layout of write_json(), but receives the items of one section in several calls,
/// so that the whole section is never in memory. Callers format an item with open_item(), then append its
/// fields, then call close_item(), in any thread. write_items() writes the items in the order of its calls.
class JsonStream {
 public:
  /// `section` and `record` are the names of the section of write_items(), as in Section.
  JsonStream(OutputFile& out, JsonLayout layout, std::string section, std::string_view record);

  /// Append the opening of an item (everything before its first field) and its closing. In between, the
  /// caller appends at least one field as `"name": value`; fields are separated by ", ".
  void open_item(std::string& text) const { text += item_begin_; }
  void close_item(std::string& text) const { text += layout_ == JsonLayout::document ? "}" : "}\n"; }

  /// Call begin() once, with at least one field, then write_items() any number of times, then end(), which
  /// also writes the section `last`.
  void begin(const Record& head);
  void write_items(std::string_view items);
  void end(const Section& last);

 private:
  OutputFile& out_;
  JsonLayout layout_;
  std::string section_;
  std::string item_begin_;
  bool any_ = false;
};

/// Returns a record as JSON on one line.
[[nodiscard]] std::string json_text(const Record& record);

/// Appends a JSON string with its quotes. The result is always valid UTF-8: each invalid byte becomes U+FFFD.
/// Escapes quotes, backslashes, all control characters (including DEL and C1, so that the output cannot
/// control a terminal), and the JavaScript line ends U+2028 and U+2029.
void append_json_string(std::string& text, std::string_view value);

/// Writes a table in the format of RFC 4180: a header line, CRLF after each line, and quotes around fields
/// that contain the separator, a quote or a line end. The separator is options.separator. Undefined and
/// non-finite cells are empty; an empty text is written as "". Text cells are made safe:
///
/// - Control characters except tabs and line ends, and bytes that are not UTF-8, are replaced by \xNN.
/// - A leading ' is added to a text of at least two characters that begins with = + - @ (also full-width), a
/// tab or a line end and is not a number, so that no spreadsheet program runs it as a formula. It is also
/// added to such a text with ' before it, and after a semicolon before = + - @ (also full-width).
///
/// Formats rows in parallel if options.pool is not null. Only a limited number of rows is in memory at a
/// time. Returns the number of cells left empty because they are NaN or infinite (see count_non_finite).
std::uint64_t write_csv_table(OutputFile& out, const Table& table, const WriteOptions& options = {});

/// Appends one text cell in the format of write_csv_table().
void append_csv_text(std::string& line, std::string_view text, char separator = ',');

enum class PictureFormat { svg, png, pdf };

/// The options of pictures. If they are not given, a picture has its own title, size and colours.
struct PictureOptions {
  std::optional<std::string> title = {};  // replaces the title and the subtitle; empty: none
  double font_size = 9;                   // of labels, in points; all texts are scaled with it
  std::string font_family = {};           // of all texts: letters, digits, spaces, - and _; empty: Helvetica
  std::string colormap = {};              // one of colormap_names()
  std::optional<std::size_t> width = {};  // in pixels, or points of a PDF; the drawing is scaled to it
  std::optional<double> vmin = {}, vmax = {};  // ends of the scale of heatmaps
  Warnings* warnings = nullptr;  // PNG, PDF: receives missing_glyphs and missing_font; may be null
  bool operator==(const PictureOptions&) const = default;
  [[nodiscard]] double zoom() const { return font_size / 9; }  // factor on the sizes of texts
};

/// Loads librsvg, which draws PNG and PDF. Throws Error(usage) if it cannot be loaded.
void require_picture_library();

/// Writes an SVG document in this format. A PNG has two pixels per unit of the SVG, or one if a side would be
/// longer than the 32,767 pixels that cairo supports. A PDF has 0.75 pt per unit and no date. options.zoom()
/// multiplies both; options.width replaces them by the width of the PNG in pixels, or of the PDF in pt.
/// Throws Error, and writes nothing, if the picture cannot be drawn.
void write_svg_as(OutputFile& out, const std::string& svg, PictureFormat format,
                  const PictureOptions& options = {});

/// Writes a page of heatmaps as a standalone SVG without scripts or external references, or as write_svg_as()
/// writes this SVG. Cells that are large enough show their text of HeatmapPage::cell_texts or, if there are
/// no texts, their value, with at most two decimals and, without HeatmapPage::small_values, not if it is
/// below 0.01 in magnitude. The text is white on dark cells. The titles of a grid are broken into lines that
/// are not wider than their heatmaps. If there are at most 5000 cells, each has a tooltip with its labels and
/// value. Long labels are shortened, and column labels are turned if they do not fit. If there are too many
/// labels, only every second, fifth, tenth, ... label is drawn. Above a heatmap with a tree is a dendrogram,
/// with an axis of its distances, and a strip with the colours of the groups of columns, which a legend
/// lists. If `options` has only one end of a diverging scale, the other end is its negative. Throws
/// Error(limit) for more than 250,000 cells or a picture that is too large (see SvgCanvas::document),
/// Error(usage) if the scale with the ends of `options` is empty, and std::invalid_argument if the page has
/// no heatmap, if its scale is empty, or if labels, cell texts or trees do not match the cells.
void write_picture(OutputFile& out, HeatmapPage page, PictureFormat format = PictureFormat::svg,
                   const PictureOptions& options = {});

/// Writes a page of charts, two charts per row of the page, as a standalone SVG without scripts or external
/// references, or as write_svg_as() writes this SVG. Table rows are drawn in their order. Points that are
/// undefined, not finite, or not positive on a logarithmic axis are omitted, and so are charts without
/// points, unless no chart has points. Throws std::invalid_argument if the page has no chart or a column is
/// missing, and Error(limit) for more than 100,000 points or a picture that is too large (see
/// SvgCanvas::document).
void write_picture(OutputFile& out, ChartPage page, PictureFormat format = PictureFormat::svg,
                   const PictureOptions& options = {});

/// Formats chunks in parallel (if `pool` is not null) and writes them in order. A worker that has formatted a
/// chunk waits until all earlier chunks are written, so at most one chunk per worker is in memory. `format`
/// appends the text of a chunk to `text`, which is empty at the call, and is called from several threads.
/// `write` is called in the order of the chunks, for one chunk at a time.
void write_in_order(Pool* pool, std::size_t chunks,
                    const std::function<void(std::size_t chunk, std::string& text)>& format,
                    const std::function<void(const std::string& text)>& write);

}  // namespace attnctl::report
