#include "input/text_input.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/text.hpp"
#include "input/conllu.hpp"
#include "input/json_inputs.hpp"

namespace attnctl {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_json(InputFormat format) {
  return format == InputFormat::json || format == InputFormat::jsonl;
}

bool is_blank(std::string_view line) {
  while (!line.empty()) {
    const std::string_view character = line.substr(0, utf8_sequence_length(line));
    if (!is_white_space(utf8_code_point(character))) return false;
    line.remove_prefix(character.size());
  }
  return true;
}

std::uint64_t read_lines(std::string_view text, std::vector<TextInput>& inputs) {
  std::uint64_t blank = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (is_blank(line)) {
      ++blank;
    } else {
      inputs.emplace_back().text = line;
    }
  }
  return blank;
}

void read_treebank(std::string_view text, const TextPlace& place, std::vector<TextInput>& inputs) {
  std::vector<ConlluSentence> sentences;
  read_conllu(text, place, sentences);
  for (ConlluSentence& sentence : sentences) {
    TextInput& input = inputs.emplace_back();
    input.id = std::move(sentence.id);
    input.text = std::move(sentence.text);
    std::vector<TextWord>& words = input.words.emplace();
    for (ConlluWord& each : sentence.words) words.push_back(std::move(each.word));
  }
}

}  // namespace

std::uint64_t read_text_inputs(std::string_view text, InputFormat format, const TextPlace& place,
                               std::vector<TextInput>& inputs) {
  require_utf8(text, place);
  const bool marked = place.offset == 0 && text.starts_with(kByteOrderMark);
  if (marked && !is_json(format)) text.remove_prefix(kByteOrderMark.size());
  switch (format) {
    case InputFormat::txt:
      return read_lines(text, inputs);
    case InputFormat::conllu:
      read_treebank(text, place, inputs);
      return 0;
    case InputFormat::json:
    case InputFormat::jsonl:
      break;
  }
  for_each_json_input(text, format, place, [&](const JsonInput& input) {
    if (!input.has_text()) input.refuse("text", "is missing; tokens and ids are no text");
    inputs.push_back(input.text());
  });
  return 0;
}

}  // namespace attnctl
