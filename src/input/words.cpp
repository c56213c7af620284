#include "input/words.hpp"

#include <algorithm>
#include <cstdint>

#include "base/text.hpp"

namespace attnctl {

bool is_white_space(char32_t point) {
  return (point >= 0x09 && point <= 0x0D) || point == 0x20 || point == 0x85 || point == 0xA0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
         point == 0x202F || point == 0x205F || point == 0x3000;
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::vector<TextWord> white_space_words(std::string_view text) {
  std::vector<TextWord> words;
  bool inside = false;
  std::uint32_t place = 0;
  for (std::size_t i = 0; i < text.size(); ++place) {
    const std::size_t length = std::max<std::size_t>(utf8_sequence_length(text.substr(i)), 1);
    const std::string_view character = text.substr(i, length);
    i += length;
    if (is_white_space(utf8_code_point(character))) {
      inside = false;
      continue;
    }
    if (!inside) words.push_back({{}, {place, place}});
    inside = true;
    words.back().form += character;
    words.back().range.end = place + 1;
  }
  return words;
}

std::pair<std::size_t, std::size_t> words_in(std::span<const TextWord> words, TextRange range) {
  const auto first = std::partition_point(
      words.begin(), words.end(), [&](const TextWord& word) { return word.range.end <= range.begin; });
  const auto last = std::partition_point(first, words.end(),
                                         [&](const TextWord& word) { return word.range.begin < range.end; });
  const auto begin = static_cast<std::size_t>(first - words.begin());
  const auto end = static_cast<std::size_t>(last - words.begin());
  return {begin, range.begin < range.end ? end : begin};
}

}  // namespace attnctl
