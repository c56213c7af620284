#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <mutex>

#include "base/numbers.hpp"
#include "base/text.hpp"
#include "report/writers.hpp"

namespace attnctl::report {
namespace {

constexpr std::size_t kCellsPerChunk = 32768;

bool is_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && std::isfinite(value);
}

bool runs_as_formula(std::string_view text, bool inside) {
  constexpr std::string_view kBeginnings[] = {"=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"};
  const auto begins = [&](std::string_view sign) {
    return text.size() > sign.size() && text.starts_with(sign);
  };
  return (std::ranges::any_of(kBeginnings, begins) ||
          (!inside && text.size() > 1 && text.find_first_of("\t\r\n") == 0)) &&
         !is_number(text);
}

/// Adds ' before each formula at the beginning of a text or after a semicolon, at which some spreadsheet
/// programs split lines. Also before '=, so that different texts have different cells.
std::string guarded(std::string_view text) {
  std::string out;
  for (bool inside = false; !text.empty(); inside = true) {
    const std::size_t quotes = std::min(text.find_first_not_of('\''), text.size());
    if (runs_as_formula(text.substr(quotes), inside)) out += '\'';
    const std::size_t end = std::min(text.find(';'), text.size() - 1) + 1;
    out += text.substr(0, end);
    text.remove_prefix(end);
  }
  return out;
}

/// Escapes control characters except tabs and line ends, and bytes that are not UTF-8.
std::string printable(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t kept = std::min(text.find_first_of("\t\r\n"), text.size());
    out += escaped(text.substr(0, kept), FormatCharacters::keep);
    if (kept == text.size()) return out;
    out += text[kept];
    text.remove_prefix(kept + 1);
  }
}

bool is_plain_field(std::string_view text, char separator) {
  const auto plain = [separator](char c) {
    return c >= '.' && c <= '~' && c != '=' && c != ';' && c != separator;
  };
  return !text.empty() && std::ranges::all_of(text, plain) && text.front() != '@';
}

/// Formats rows in a small buffer that stays in the cache. When the buffer is full, appends it to a text.
class RowBuffer {
 public:
  RowBuffer(std::string& text, const WriteOptions& options)
      : text_(text), format_(options.number), separator_(options.separator) {}

  void append(const Cell& cell, bool last) {
    if (end_ > buffer_.data() + buffer_.size() - kCellSpace) flush();
    std::visit(Overloaded{[](std::monostate) {}, [&](bool value) { put(value ? "true" : "false"); },
                          [&](const std::string& value) { append_text(value); },
                          [&](std::int64_t value) { end_ = format_.write(end_, value); },
                          [&](auto value) {
                            if (std::isfinite(value)) {
                              end_ = format_.write(end_, value);
                            } else if (!is_undefined(value)) {
                              ++non_finite_;
                            }
                          }},
               cell);
    put(last ? "\r\n" : std::string_view(&separator_, 1));
  }

  void flush() {
    text_ += std::string_view(buffer_.data(), end_);
    end_ = buffer_.data();
  }

  [[nodiscard]] std::uint64_t non_finite() const { return non_finite_; }

 private:
  static constexpr std::size_t kCellSpace = NumberFormat::kMostCharacters + 2;
  static constexpr std::size_t kShortText = 64;

  void put(std::string_view text) { end_ = std::ranges::copy(text, end_).out; }

  void append_text(const std::string& value) {
    if (value.size() <= kShortText && is_plain_field(value, separator_)) return put(value);
    flush();
    append_csv_text(text_, value, separator_);
  }

  std::string& text_;
  const NumberFormat& format_;
  char separator_;
  std::array<char, 8192> buffer_;
  char* end_ = buffer_.data();
  std::uint64_t non_finite_ = 0;
};

void append_header(std::string& text, const Table& table, char separator) {
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (i > 0) text += separator;
    append_csv_text(text, table.columns[i].name, separator);
  }
  text += "\r\n";
}

/// Appends rows [first, last). Returns the number of cells that are NaN or infinite (see count_non_finite).
std::uint64_t append_rows(std::string& text, const Table& table, const WriteOptions& options,
                          std::size_t first, std::size_t last) {
  std::vector<Cell> cells(table.columns.size());
  RowBuffer buffer(text, options);
  for (std::size_t row = first; row < last; ++row) {
    table.row(row, cells);
    for (std::size_t i = 0; i < cells.size(); ++i) buffer.append(cells[i], i + 1 == cells.size());
  }
  buffer.flush();
  return buffer.non_finite();
}

}  // namespace

void append_csv_text(std::string& line, std::string_view text, char separator) {
  if (is_plain_field(text, separator)) {
    line += text;
    return;
  }
  const std::string field = printable(guarded(text));
  const bool quoted = field.empty() || field.find(separator) != std::string::npos ||
                      field.find_first_of("\"\r\n") != std::string::npos;
  if (quoted) line += '"';
  for (const char c : field) {
    if (c == '"') line += '"';
    line += c;
  }
  if (quoted) line += '"';
}

std::uint64_t write_csv_table(OutputFile& out, const Table& table, const WriteOptions& options) {
  const std::size_t columns = std::max<std::size_t>(table.columns.size(), 1);
  const std::size_t rows = std::max<std::size_t>(kCellsPerChunk / columns, 1);
  const std::size_t chunks = std::max<std::size_t>((table.rows + rows - 1) / rows, 1);
  std::atomic<std::uint64_t> non_finite = 0;
  const auto format = [&](std::size_t chunk, std::string& text) {
    if (chunk == 0) append_header(text, table, options.separator);
    non_finite += append_rows(text, table, options, chunk * rows, std::min(table.rows, (chunk + 1) * rows));
  };
  write_in_order(options.pool, chunks, format, [&](const std::string& text) { out.write(text); });
  return non_finite;
}

void write_in_order(Pool* pool, std::size_t chunks,
                    const std::function<void(std::size_t chunk, std::string& text)>& format,
                    const std::function<void(const std::string& text)>& write) {
  Pool single(1);
  if (pool == nullptr) pool = &single;
  std::mutex mutex;
  std::condition_variable turn;
  std::size_t next = 0;  // the chunk that is written next
  std::atomic<bool> failed = false;
  std::vector<std::string> texts(pool->size());
  pool->run(chunks, [&](std::size_t chunk, std::size_t worker) {
    if (failed) return;  // read without the mutex, because the mutex is held during slow writes
    std::string& text = texts[worker];
    text.clear();
    try {
      format(chunk, text);
      // This wait always ends: the pool starts tasks in ascending order, so all earlier chunks have been
      // started.
      std::unique_lock lock(mutex);
      turn.wait(lock, [&] { return failed || next == chunk; });
      if (failed) return;
      write(text);
      ++next;
      turn.notify_all();
    } catch (...) {
      const std::lock_guard lock(mutex);
      failed = true;
      turn.notify_all();
      throw;
    }
  });
}

}  // namespace attnctl::report
