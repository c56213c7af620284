#include "input/text_input.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "input/conllu.hpp"
#include "input/json_inputs.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::input {

constexpr std::pair<std::string_view, InputFormat> kExtensions[] = {{".txt", InputFormat::txt},
                                                                    {".jsonl", InputFormat::jsonl},
                                                                    {".json", InputFormat::json},
                                                                    {".conllu", InputFormat::conllu},
                                                                    {".conll", InputFormat::conllu}};
constexpr std::size_t kLongestFile = std::size_t{1} << 30;
/// Longest line or sentence of a file. Escapes in JSON and the columns of CoNLL-U make it longer than its
/// text.
constexpr std::size_t kLongestInput = 4 * tokenizer::kLongestText;

void require_utf8(std::string_view text, const TextPlace& place) {
  const auto bad = find_ill_formed_utf8(text);
  if (!bad) return;
  const std::string_view before = text.substr(0, *bad);
  const std::size_t begin = before.rfind('\n') + 1;  // of the line; 0 in the first line
  refuse(place.file,
         "line {}: got 0x{:02x} as byte {} of the line, which is not UTF-8; convert the text to UTF-8",
         place.line + static_cast<std::uint64_t>(std::ranges::count(before, '\n')),
         static_cast<unsigned char>(text[*bad]), *bad - begin + 1);
}

void skip_byte_order_mark(std::string_view& text, const TextPlace& place) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (place.offset == 0 && text.starts_with(kMark)) text.remove_prefix(kMark.size());
}

InputFormat format_of_file(const std::string& path, const std::string& given) {
  std::filesystem::path name = lower_case(path);
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  const std::string extension = given.empty() ? name.extension().string() : "." + given;
  for (const auto& [known, format] : kExtensions) {
    if (extension == known) return format;
  }
  fail(Status::bad_input,
       "{}: unsupported extension \"{}\"; supported: .txt, .jsonl, .json, .conllu, .conll, each also with "
       ".gz or .zst; or give --input-format",
       escaped(path), escaped(extension));
}

TextBlock read_whole(const std::filesystem::path& path) {
  InputStream stream(path);
  // A separate statement, because GCC 12 would destroy the TextPlace below twice if read_all() threw.
  std::string text = stream.read_all(kLongestFile);
  return {{stream.name(), 0, 1}, std::move(text)};
}

InputFormat guess_format(std::string_view first_line) {
  skip_byte_order_mark(first_line, {});
  if (first_line == "{" || first_line.starts_with('[')) return InputFormat::json;
  if (first_line.starts_with('{')) return InputFormat::jsonl;
  return begins_conllu(first_line) ? InputFormat::conllu : InputFormat::txt;
}

TextBlocks::TextBlocks(const std::filesystem::path& path, InputFormat format, std::size_t block_bytes)
    : stream_(path), format_(format), block_bytes_(block_bytes), place_{stream_.name(), 0, 1} {
  fill();
}

/// Appends a block of the file to `pending_`. If `pending_` is already longer than a block, because it holds
/// no whole line or sentence, reads enough to double its size, but at most one byte more than an input may
/// have.
void TextBlocks::fill() {
  const std::size_t before = pending_.size();
  const std::size_t wanted = std::min(std::max(block_bytes_, before), kLongestInput + 1 - before);
  pending_.resize(before + wanted);
  const std::size_t got = stream_.read(std::span(pending_).subspan(before));
  pending_.resize(before + got);
  at_end_ = got < wanted;
}

/// Returns the last position in `pending_` where a block may end; 0 if there is none.
std::size_t TextBlocks::find_end() const {
  std::string_view text = pending_;
  while (true) {
    const std::size_t end = text.rfind('\n') + 1;  // npos + 1 is 0
    text = text.substr(0, end > 0 ? end - 1 : 0);
    if (format_ != InputFormat::conllu || end == 0 || text.ends_with('\n') || text.ends_with("\n\r"))
      return end;
  }
}

bool TextBlocks::next(TextBlock& block) {
  std::size_t end = find_end();
  for (; end == 0 && !at_end_; end = find_end()) {
    if (pending_.size() > kLongestInput) {
      refuse(place_.file, "line {}: an input is longer than {} bytes; split it into several inputs",
             place_.line, kLongestInput);
    }
    fill();
  }
  if (end == 0) end = pending_.size();
  if (end == 0) return false;
  block.place = place_;
  block.text.assign(pending_, 0, end);
  pending_.erase(0, end);
  place_.offset += end;
  place_.line += static_cast<std::uint64_t>(std::ranges::count(block.text, '\n'));
  if (!at_end_) fill();
  return true;
}

std::uint64_t read_text_inputs(std::string_view text, InputFormat format, const TextPlace& place,
                               std::vector<TextInput>& inputs) {
  if (format == InputFormat::txt) {
    require_utf8(text, place);
    skip_byte_order_mark(text, place);
    std::uint64_t blank = 0;
    for (std::uint64_t number = place.line; !text.empty(); ++number) {
      const std::string_view line = take_line(text);
      if (line.size() > tokenizer::kLongestText)
        refuse(place.file, "line {}: the text has {} bytes, need at most {}; split it into several lines",
               number, line.size(), tokenizer::kLongestText);
      if (tokenizer::unicode::white_space_end(line, 0) == line.size()) {
        ++blank;
      } else {
        inputs.emplace_back().text = line;
      }
    }
    return blank;
  }
  if (format == InputFormat::conllu) {
    std::vector<ConlluSentence> sentences;
    read_conllu(text, place, sentences);
    for (const ConlluSentence& sentence : sentences) inputs.push_back(text_of(sentence));
    return 0;
  }
  for_each_json_input(text, format, place, [&](const JsonInput& input) {
    if (!input.contains("text"))
      input.object.refuse("text", "is missing; this command needs text, not tokens or ids");
    inputs.push_back(input.text());
  });
  return 0;
}

}  // namespace attnctl::input
