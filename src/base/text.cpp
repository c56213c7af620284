#include "base/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace attnctl {
namespace {

bool is_control(std::string_view sequence) {
  const auto first = static_cast<std::uint8_t>(sequence[0]);
  if (first < 0x20 || first == 0x7F) return true;
  return sequence.size() == 2 && first == 0xC2 && static_cast<std::uint8_t>(sequence[1]) < 0xA0;
}

/// Returns whether a character is a line separator or an ignorable format character (general category Cf of
/// Unicode 15), but not U+200C or U+200D.
bool is_invisible(std::string_view sequence) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0xAD, 0xAD},       {0x61C, 0x61C},     {0x180E, 0x180E},   {0x200B, 0x200B}, {0x200E, 0x200F},
      {0x2028, 0x202E},   {0x2060, 0x206F},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB}, {0x1BCA0, 0x1BCA3},
      {0x1D173, 0x1D17A}, {0xE0001, 0xE0001}, {0xE0020, 0xE007F},
  };
  if (sequence.size() == 1) return false;
  const char32_t point = utf8_code_point(sequence);
  return std::ranges::any_of(
      kRanges, [&](const auto& range) { return point >= range.first && point <= range.second; });
}

bool continues_character(char c) {
  return (static_cast<std::uint8_t>(c) & 0xC0U) == 0x80U;
}

constexpr std::string_view kEllipsis = "...";

/// Keeps `most` bytes, half of them at each end, and no parts of characters.
std::string cut_middle(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t head = most / 2;
  while (head > 0 && continues_character(text[head])) --head;
  std::size_t tail = text.size() - most / 2;
  while (tail < text.size() && continues_character(text[tail])) ++tail;
  return std::string(text.substr(0, head)).append(kEllipsis).append(text.substr(tail));
}

/// Cuts each part that is longer than `most` bytes. A part ends at any of the characters `ends`.
std::string with_short_parts(std::string_view text, std::string_view ends, std::size_t most) {
  std::string out;
  while (true) {
    const std::size_t end = std::min(text.find_first_of(ends), text.size());
    out += cut_middle(text.substr(0, end), most);
    if (end == text.size()) return out;
    out += text[end];
    text.remove_prefix(end + 1);
  }
}

/// Returns the smallest number of insertions, deletions, replacements and swaps of neighbours that turn `a`
/// into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> edits(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      std::size_t& least = edits[i][j] = i + j;
      if (i == 0 || j == 0) continue;
      const std::size_t replaced = a[i - 1] == b[j - 1] ? 0 : 1;
      least = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1, edits[i - 1][j - 1] + replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        least = std::min(least, edits[i - 2][j - 2] + 1);
    }
  }
  return edits[a.size()][b.size()];
}

}  // namespace

std::string escaped(std::string_view text, FormatCharacters format) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    const std::string_view sequence = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || is_control(sequence)) {
      for (const char c : sequence) out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(c));
    } else if (format == FormatCharacters::escape && is_invisible(sequence)) {
      const auto point = static_cast<std::uint32_t>(utf8_code_point(sequence));
      out += point > 0xFFFF ? fmt::format("\\U{:08x}", point) : fmt::format("\\u{:04x}", point);
    } else {
      out += sequence;
    }
    text.remove_prefix(sequence.size());
  }
  return out;
}

std::string message_line(std::string_view message) {
  constexpr std::size_t kMost = 460;
  constexpr std::size_t kLengths[] = {320, 240, 160, 120, 80};
  std::string line = escaped(message);
  if (line.size() <= kMost) return line;
  for (const std::size_t most : kLengths) {
    std::string short_words = with_short_parts(line, " ", most);
    if (short_words.size() <= kMost) return short_words;
  }
  for (const std::size_t most : kLengths) {
    line = with_short_parts(with_short_parts(line, " ", most), ":;", most);  // words, then clauses
    if (line.size() <= kMost) return line;
  }
  return cut_middle(line, kMost - kEllipsis.size());
}

std::string shown(std::string_view text) {
  return escaped(cut_middle(text, 160));
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  parts.reserve(static_cast<std::size_t>(std::ranges::count(text, separator)) + 1);
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view closest_name(std::string_view word, std::span<const std::string_view> names) {
  const std::string lower = lower_case(word);
  const auto swapped = [&](std::string_view name) {
    return name.size() == lower.size() && std::ranges::is_permutation(name, lower) &&
           edit_distance(lower, name) == 1;
  };
  if (std::ranges::count_if(names, swapped) == 1) return *std::ranges::find_if(names, swapped);
  const auto begins = [&](std::string_view name) { return !word.empty() && name.starts_with(lower); };
  if (std::ranges::count_if(names, begins) == 1) return *std::ranges::find_if(names, begins);
  const std::size_t limit = std::max(std::min<std::size_t>(2, word.size() / 2), word.size() / 3);
  std::size_t least = limit + 1;
  std::string_view closest;
  for (const std::string_view name : names) {
    if (name.size() + limit < word.size()) continue;  // bounds the work for a very long word
    const std::size_t edits = edit_distance(lower, name);
    if (edits <= least) closest = edits < least ? name : "";
    least = std::min(least, edits);
  }
  return closest;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::optional<std::string_view> path_fault(std::string_view path) {
  if (path.starts_with('/')) return "which is an absolute path; it must be relative";
  if (path.find('\\') != std::string_view::npos) return "which contains a backslash";
  if (path.find('\0') != std::string_view::npos) return "which contains a NUL byte";
  for (const std::string_view part : split(path, '/')) {
    if (part == "..") return "which contains the part \"..\"";
    if (part.empty() || part == ".") return "which contains an empty part or the part \".\"";
  }
  return std::nullopt;
}

std::optional<std::size_t> parse_number(std::string_view text) {
  std::size_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

// U8_NEXT of ICU does the same, but is slower: 2.7 instead of 1.9 ns per character of mixed ASCII and other
// text.
std::size_t utf8_sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto in = [&](std::size_t i, unsigned low, unsigned high) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return in(1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return in(1, low, high) && in(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return in(1, low, high) && in(2, 0x80, 0xBF) && in(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

char32_t utf8_code_point(std::string_view sequence) {
  const auto first = static_cast<std::uint8_t>(sequence[0]);
  if (sequence.size() == 1) return first;
  char32_t point = first & (0x7FU >> sequence.size());
  for (const char c : sequence.substr(1)) point = point << 6U | (static_cast<std::uint8_t>(c) & 0x3FU);
  return point;
}

std::optional<std::size_t> find_ill_formed_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    constexpr std::uint64_t kHighBits = 0x8080808080808080U;
    std::uint64_t eight = kHighBits;
    if (text.size() - i >= sizeof(eight)) std::memcpy(&eight, text.data() + i, sizeof(eight));
    if ((eight & kHighBits) == 0) {
      i += sizeof(eight);
      continue;
    }
    const std::size_t length = utf8_sequence_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

std::uint64_t content_hash(std::span<const std::byte> bytes, std::uint64_t seed) {
  const std::byte* const data = bytes.data();
  return data == nullptr ? XXH64("", 0, seed) : XXH64(data, bytes.size(), seed);
}

}  // namespace attnctl
