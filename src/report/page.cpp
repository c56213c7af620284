#include "report/page.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <zlib.h>

#include "report/html/assets.hpp"
#include "report/writers.hpp"

namespace attnctl::report {
namespace {

static_assert(std::endian::native == std::endian::little, "a page stores numbers in little-endian order");

/// Returns a zlib stream with the bytes.
std::string compressed(std::string_view bytes) {
  constexpr int kLevel = 5;
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                bytes.size(), kLevel) != Z_OK)
    throw std::bad_alloc();
  out.resize(size);
  return out;
}

/// Returns the source of a Content-Security-Policy for a text with this SHA-256, which is given in hex
/// digits.
std::string hash_source(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  std::string source = "'sha256-";
  append_base64(source, bytes);
  return source + "'";
}

/// Writes JSON. Numbers have seven significant digits.
class PageJson {
 public:
  std::string text;

  void key(std::string_view name) {
    separate();
    append_json_string(text, name);
    text += ':';
    first_ = true;
  }
  void open(char bracket) {
    separate();
    text += bracket;
    first_ = true;
  }
  void close(char bracket) {
    text += bracket;
    first_ = false;
  }
  void value(std::string_view value) {
    separate();
    append_json_string(text, value);
  }
  void value(const std::string& text_value) { value(std::string_view(text_value)); }
  void value(const char* text_value) { value(std::string_view(text_value)); }
  void value(double number) {
    separate();
    if (std::isfinite(number)) {
      fmt::format_to(std::back_inserter(text), "{:.7g}", number);
    } else {
      text += "null";
    }
  }
  template <std::integral T>
  void value(T number) {
    separate();
    if constexpr (std::is_same_v<T, bool>) {
      text += number ? "true" : "false";
    } else {
      fmt::format_to(std::back_inserter(text), "{}", number);
    }
  }
  void value(const Cell& cell) {
    std::visit(Overloaded{[&](std::monostate) { raw("null"); }, [&](float number) { value(double{number}); },
                          [&](const auto& other) { value(other); }},
               cell);
  }
  template <typename T>
  void list(const T& items) {
    open('[');
    for (const auto& item : items) value(item);
    close(']');
  }
  template <typename T>
  void field(std::string_view name, const T& item) {
    key(name);
    value(item);
  }
  template <typename T>
  void list_field(std::string_view name, const T& items) {
    key(name);
    list(items);
  }
  void raw(std::string_view json) {
    separate();
    text += json;
  }

 private:
  void separate() {
    if (!std::exchange(first_, false)) text += ',';
  }
  bool first_ = true;  // no comma before the next value
};

constexpr std::size_t kMostRows = 20'000;

void add_table(PageJson& json, const Table& table) {
  json.open('{');
  json.field("name", table.name);
  json.key("columns");
  json.open('[');
  for (const Column& column : table.columns) {
    json.open('{');
    json.field("name", column.name);
    if (const Definition* const about = column.definition) {
      for (const auto& [key, text] : {std::pair{"unit", about->unit},
                                      {"range", about->range},
                                      {"null", about->null},
                                      {"meaning", about->meaning},
                                      {"source", about->source}})
        if (!text.empty()) json.field(key, text);
    }
    json.close('}');
  }
  json.close(']');
  const std::size_t rows = std::min(table.rows, kMostRows);
  json.field("omitted", table.rows - rows);
  json.key("rows");
  json.open('[');
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t row = 0; row < rows; ++row) {
    table.row(row, cells);
    json.list(cells);
  }
  json.close(']');
  json.close('}');
}

void add_heatmap(PageJson& json, const Heatmap& heatmap) {
  json.open('{');
  json.field("title", heatmap.title);
  json.field("x_axis", heatmap.x_axis);
  json.field("y_axis", heatmap.y_axis);
  json.list_field("x_labels", heatmap.x_labels);
  json.list_field("y_labels", heatmap.y_labels);
  json.list_field("shape", heatmap.values.shape);
  json.key("values");
  json.open('[');
  for (std::size_t i = 0; i < heatmap.values.size(); ++i) json.value(heatmap.values.at(i));
  json.close(']');
  if (!heatmap.heads.empty()) {
    json.list_field("x_heads", heatmap.heads);
    json.list_field("y_heads", heatmap.heads);
  }
  const ColumnTree& tree = heatmap.tree;
  json.key("tree");
  json.open('{');
  json.list_field("groups", tree.groups);
  json.list_field("column_groups", tree.column_groups);
  json.key("merges");
  json.open('[');
  for (const ColumnTree::Join& join : tree.merges) {
    json.open('{');
    json.field("first", join.first);
    json.field("second", join.second);
    json.field("distance", join.distance);
    json.close('}');
  }
  json.close(']');
  json.close('}');
  json.close('}');
}

/// Leaves out the lines of the subtitle that the page has in its header.
void add_picture(PageJson& json, const View& view, const std::vector<std::string>& header) {
  const auto add_subtitle = [&](std::vector<std::string> lines) {
    std::erase_if(lines,
                  [&](const std::string& line) { return std::ranges::find(header, line) != header.end(); });
    json.list_field("subtitle", lines);
  };
  json.open('{');
  json.field("name", view.name);
  if (const auto* const page = std::get_if<HeatmapPage>(&view.page)) {
    json.field("kind", "heatmaps");
    json.field("title", page->title);
    add_subtitle(page->subtitle);
    json.list_field("legend", page->legend);
    json.list_field("cell_texts", page->cell_texts);
    json.key("scale");
    json.open('{');
    json.field("diverging", page->scale.diverging);
    json.field("logarithmic", page->scale.logarithmic);
    json.field("low", page->scale.low);
    json.field("high", page->scale.high);
    json.field("label", page->scale.label);
    json.close('}');
    json.key("heatmaps");
    json.open('[');
    for (const Heatmap& heatmap : page->heatmaps) add_heatmap(json, heatmap);
    json.close(']');
  } else {
    const auto& charts = std::get<ChartPage>(view.page);
    json.field("kind", "charts");
    json.field("title", charts.title);
    add_subtitle(charts.subtitle);
    json.key("table");
    add_table(json, charts.table);
    json.key("charts");
    json.open('[');
    for (const Chart& chart : charts.charts) {
      json.open('{');
      json.field("title", chart.title);
      json.field("x", chart.x);
      json.list_field("y", chart.y);
      json.field("x_axis", chart.x_axis);
      json.field("y_axis", chart.y_axis);
      json.field("labels", chart.labels);
      for (const auto& [key, flag] : {std::pair{"log_x", chart.log_x},
                                      {"log_y", chart.log_y},
                                      {"bars", chart.bars},
                                      {"points", chart.points},
                                      {"outline", chart.outline}})
        json.field(key, flag);
      json.close('}');
    }
    json.close(']');
  }
  json.close('}');
}

/// A matrix of numbers that a page stores outside of its JSON.
struct StoredBlock {
  std::span<const float> values;  // [rows, columns]
  std::size_t rows = 0, columns = 0;
  int bits = 16;
  std::size_t kept = 0;
  StoredNumbers stored = {};  // without its bytes after they are written
};

/// The blocks of a layer on one input.
struct LayerBlocks {
  std::int64_t layer = 0;
  double scale = 1;
  std::size_t first = 0, count = 0;                         // heads
  std::size_t first_kv = 0;                                 // key/value head
  std::vector<std::pair<std::string, std::size_t>> blocks;  // name in JSON, index of the block
};

/// The numbers of the attention on one input.
struct StoredAttention {
  std::vector<LayerBlocks> layers;
  std::optional<std::size_t> image;  // index of the block
};

class PageWriter {
 public:
  PageWriter(const Results& results, const PageOptions& options) : results_(results), options_(options) {
    std::uint64_t weights = 0;
    for (const Attention& each : results.attention) weights += each.patterns.size();
    bits_ = weights > kMostPreciseWeights ? 8 : 16;
    for (const Attention& each : results.attention) plan(each);
  }

  void write(OutputFile& out, const PageHead& head, const Warnings& warnings, Pool& pool) {
    std::vector<std::string> texts(blocks_.size());
    pool.run(blocks_.size(), [&](std::size_t index, std::size_t /*worker*/) {
      StoredBlock& block = blocks_[index];
      block.stored = store_numbers(block.values, block.columns, block.bits, block.kept);
      texts[index] = fmt::format("<script type=\"application/octet-stream\" id=\"b{}\">", index);
      append_base64(texts[index], compressed(std::exchange(block.stored.bytes, {})));
      texts[index] += "</script>\n";
    });
    std::string data =
        "<script type=\"application/json\" id=\"page-data\">" + json_of(head, warnings) + "</script>\n";
    std::uint64_t size = data.size();
    for (const std::string& text : texts) size += text.size();
    const auto [before, after] = markup();
    size += before.size() + after.size();
    if (size > options_.limit) {
      fail(Status::limit,
           "the page would have {} bytes, and --page-limit allows {}; give --page-top-k 32, select fewer "
           "--layers or "
           "--heads, request less with --include, or raise --page-limit",
           size, options_.limit);
    }
    out.write(before);
    for (const std::string& text : texts) out.write(text);
    out.write(data);
    out.write(after);
  }

 private:
  std::size_t add_block(const Tensor& tensor, std::size_t first_row, std::size_t rows, int bits,
                        std::size_t kept) {
    const std::size_t columns = tensor.shape.back();
    const auto values =
        std::get<std::span<const float>>(tensor.values).subspan(first_row * columns, rows * columns);
    blocks_.push_back({values, rows, columns, bits, kept < columns ? kept : 0});
    return blocks_.size() - 1;
  }

  void plan(const Attention& attention) {
    StoredAttention& stored = attention_.emplace_back();
    const std::size_t queries = attention.queries.size();
    const std::size_t keys = attention.keys.size();
    const std::vector<Attention::Head>& heads = attention.heads;
    for (std::size_t first = 0; first < heads.size();) {
      std::size_t last = first;
      while (last < heads.size() && heads[last].layer == heads[first].layer) ++last;
      LayerBlocks& layer = stored.layers.emplace_back(
          LayerBlocks{heads[first].layer, heads[first].scale, first, last - first, heads[first].kv, {}});
      const auto add = [&](const char* name, const Tensor& tensor, std::size_t row, std::size_t rows,
                           int bits, std::size_t kept = 0) {
        if (tensor.size() > 0) layer.blocks.emplace_back(name, add_block(tensor, row, rows, bits, kept));
      };
      constexpr int kPrecise = 32;
      add("patterns", attention.patterns, first * queries, layer.count * queries, bits_,
          options_.top_k.value_or(0));
      add("scores", attention.scores, first * queries, layer.count * queries, kPrecise);
      add("queries", attention.query_vectors, first * queries, layer.count * queries, kPrecise);
      std::size_t last_kv = layer.first_kv;
      for (std::size_t i = first; i < last; ++i) {
        layer.first_kv = std::min(layer.first_kv, heads[i].kv);
        last_kv = std::max(last_kv, heads[i].kv);
      }
      add("keys", attention.key_vectors, layer.first_kv * keys, (last_kv - layer.first_kv + 1) * keys,
          kPrecise);
      first = last;
    }
    if (attention.image) {
      const Tensor& pixels = attention.image->pixels;
      stored.image = add_block(pixels, 0, pixels.size() / pixels.shape.back(), 8, 0);
    }
  }

  void add_block_field(PageJson& json, std::string_view name, std::size_t index) const {
    const StoredBlock& block = blocks_[index];
    json.key(name);
    json.open('{');
    json.field("id", fmt::format("b{}", index));
    json.field("rows", block.rows);
    json.field("columns", block.columns);
    json.field("bits", block.bits);
    json.field("kept", block.kept);
    json.field("error", block.stored.error);
    json.close('}');
  }

  void add_attention(PageJson& json, std::size_t index) const {
    const Attention& attention = results_.attention[index];
    const StoredAttention& stored = attention_[index];
    json.open('{');
    json.field("input", attention.input);
    json.field("component", attention.component);
    json.field("text", attention.text);
    json.list_field("queries", attention.queries);
    json.list_field("keys", attention.keys);
    json.key("words");
    if (attention.words) {
      json.open('{');
      json.list_field("labels", attention.words->labels);
      json.list_field("of", attention.words->of);
      json.close('}');
    } else {
      json.raw("null");
    }
    json.key("heads");
    json.open('[');
    for (const LayerBlocks& layer : stored.layers) {
      for (std::size_t i = layer.first; i < layer.first + layer.count; ++i) {
        const Attention::Head& head = attention.heads[i];
        json.open('{');
        json.field("layer", head.layer);
        json.field("head", head.head);
        json.field("name", head.name);
        json.field("kv", head.kv - layer.first_kv);
        json.close('}');
      }
    }
    json.close(']');
    json.key("layers");
    json.open('[');
    for (const LayerBlocks& layer : stored.layers) {
      json.open('{');
      json.field("layer", layer.layer);
      json.field("first", layer.first);
      json.field("count", layer.count);
      json.field("scale", layer.scale);
      json.field("highest", blocks_[layer.blocks.front().second].stored.highest);
      for (const auto& [name, block] : layer.blocks) add_block_field(json, name, block);
      json.close('}');
    }
    json.close(']');
    if (attention.image) {
      json.key("image");
      json.open('{');
      json.field("rows", attention.image->rows);
      json.field("columns", attention.image->columns);
      json.field("height", attention.image->pixels.shape[1]);
      json.field("width", attention.image->pixels.shape[2]);
      add_block_field(json, "pixels", *stored.image);
      json.close('}');
    }
    json.close('}');
  }

  /// Returns the data of the page. It has no "<", so that no text can end the script element.
  std::string json_of(const PageHead& head, const Warnings& warnings) const {
    PageJson json;
    json.open('{');
    json.field("title", head.title);
    json.list_field("command", head.command);
    json.field("weighting", head.weighting);
    std::string subtitle;
    for (const std::string& line : results_.subtitle) {
      if (line != head.title) subtitle += (subtitle.empty() ? "" : "\n") + line;
    }
    json.field("subtitle", subtitle);
    json.key("notes");
    json.open('[');
    for (const PageBlock& block : results_.text) {
      const auto* const line = std::get_if<TextLine>(&block);
      if (line != nullptr && !(line->strong + line->plain).empty()) json.value(line->strong + line->plain);
    }
    json.close(']');
    json.key("warnings");
    json.open('[');
    for (const Warning& warning : warnings.list()) json.value(warning.message);
    json.close(']');
    json.key("about");
    json.raw(json_text(results_.document.head));
    json.key("tables");
    json.open('[');
    for (const Table& table : results_.tables) {
      if (table.rows > 0) add_table(json, table);
    }
    json.close(']');
    json.key("pictures");
    json.open('[');
    for (const View& view : results_.pictures) add_picture(json, view, results_.subtitle);
    json.close(']');
    json.key("attention");
    json.open('[');
    for (std::size_t i = 0; i < attention_.size(); ++i) add_attention(json, i);
    json.close(']');
    json.close('}');
    std::string safe;
    for (const char c : json.text) {
      if (c == '<') {
        safe += "\\u003c";
      } else {
        safe += c;
      }
    }
    return safe;
  }

  /// Returns what the page has before and after its data.
  static std::pair<std::string, std::string> markup() {
    std::string html(kPageAssets.html);
    for (const auto& [name, text] :
         {std::pair<std::string_view, std::string>{"@SCRIPT_HASH@", hash_source(kPageAssets.script_hash)},
          {"@STYLE_HASH@", hash_source(kPageAssets.style_hash)},
          {"@STYLE@", std::string(kPageAssets.style)},
          {"@SCRIPT@", std::string(kPageAssets.script)}})
      html.replace(html.find(name), name.size(), text);
    constexpr std::string_view kData = "@DATA@\n";
    const std::size_t data = html.find(kData);
    return {html.substr(0, data), html.substr(data + kData.size())};
  }

  const Results& results_;
  const PageOptions& options_;
  int bits_ = 16;
  std::vector<StoredBlock> blocks_;
  std::vector<StoredAttention> attention_;
};

}  // namespace

namespace {

/// Returns the columns of the `count` largest numbers of a row in ascending order. NaN counts as 0. Of equal
/// numbers, the first ones are kept.
std::vector<std::uint32_t> largest_columns(std::span<const float> numbers, std::size_t count) {
  std::vector<std::uint32_t> columns(numbers.size());
  std::iota(columns.begin(), columns.end(), 0U);
  if (count == columns.size()) return columns;
  const auto number = [&](std::uint32_t column) { return std::isnan(numbers[column]) ? 0 : numbers[column]; };
  std::ranges::partial_sort(
      columns, columns.begin() + static_cast<std::ptrdiff_t>(count),
      [&](auto a, auto b) { return number(a) != number(b) ? number(a) > number(b) : a < b; });
  columns.resize(count);
  std::ranges::sort(columns);
  return columns;
}

}  // namespace

StoredNumbers store_numbers(std::span<const float> values, std::size_t columns, int bits, std::size_t kept) {
  if (columns == 0) return {};
  StoredNumbers result;
  if (bits == 32) {
    result.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    return result;
  }
  const std::size_t rows = values.size() / columns;
  const std::size_t stored = kept > 0 ? kept : columns;
  const unsigned undefined = bits == 16 ? 65535 : 255;
  std::string& bytes = result.bytes;
  const std::size_t planes = (kept > 0 ? 2U : 0U) + (bits == 16 ? 2U : 1U);
  bytes.resize(rows * (2 * sizeof(float) + planes * stored));
  char* const scales = bytes.data();
  char* const places = scales + rows * 2 * sizeof(float);  // columns of the kept numbers
  char* const codes = places + (kept > 0 ? 2 * rows * stored : 0);
  double error = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::span<const float> numbers = values.subspan(row * columns, columns);
    const std::size_t used = std::min(stored, columns);
    const std::vector<std::uint32_t> order = largest_columns(numbers, used);
    float low = 0;
    float high = 0;
    bool any = false;
    for (std::size_t i = 0; i < used; ++i) {
      const float value = numbers[order[i]];
      if (!std::isfinite(value)) continue;
      low = any ? std::min(low, value) : value;
      high = any ? std::max(high, value) : value;
      any = true;
    }
    result.highest = std::max(result.highest, double{high});
    const auto step = static_cast<float>((double{high} - double{low}) / (undefined - 1));
    std::memcpy(scales + row * sizeof(float), &low, sizeof low);
    std::memcpy(scales + (rows + row) * sizeof(float), &step, sizeof step);
    for (std::size_t i = 0; i < stored; ++i) {
      const std::size_t place = row * stored + i;
      if (kept > 0) {
        const unsigned column = i < used ? order[i] : 65535U;
        places[place] = static_cast<char>(column & 255U);
        places[rows * stored + place] = static_cast<char>(column >> 8U);
      }
      unsigned code = undefined;
      if (i < used && std::isfinite(numbers[order[i]])) {
        const double value = numbers[order[i]];
        code = step > 0 ? static_cast<unsigned>(
                              std::clamp<double>(std::round((value - low) / step), 0, undefined - 1))
                        : 0;
        error = std::max(error, std::abs(value - static_cast<float>(low + double{step} * code)));
      }
      codes[place] = static_cast<char>(code & 255U);
      if (bits == 16) codes[rows * stored + place] = static_cast<char>(code >> 8U);
    }
  }
  result.error = error;
  return result;
}

void append_base64(std::string& text, std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  text.reserve(text.size() + (bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8U | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j) text += j <= count ? kDigits[group >> (18 - 6 * j) & 63U] : '=';
  }
}

void write_page(OutputFile& out, const Results& results, const PageHead& head, const Warnings& warnings,
                const PageOptions& options, Pool& pool) {
  PageWriter(results, options).write(out, head, warnings, pool);
}

}  // namespace attnctl::report
