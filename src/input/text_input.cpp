#include "input/text_input.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "input/conllu.hpp"
#include "input/json_inputs.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kLongestBlock = std::size_t{1} << 30;

/// Returns whether the line that ends at byte `end` is empty. The first line of the text counts as not empty.
bool ends_blank_line(std::string_view text, std::size_t end) {
  const std::size_t before = end > 0 && text[end - 1] == '\r' ? end - 1 : end;
  return before > 0 && text[before - 1] == '\n';
}

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::uint64_t read_lines(std::string_view text, std::vector<TextInput>& inputs) {
  std::uint64_t blank = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (unicode::white_space_end(line, 0) == line.size()) {
      ++blank;
    } else {
      inputs.emplace_back().text = line;
    }
  }
  return blank;
}

}  // namespace

void require_utf8(std::string_view text, const TextPlace& place) {
  const auto bad = find_ill_formed_utf8(text);
  if (!bad) return;
  fail(Status::bad_input, "{}: @byte {}: got 0x{:02x}, which is not UTF-8; convert the text to UTF-8",
       place.file, place.offset + *bad, static_cast<unsigned char>(text[*bad]));
}

TextBlocks::TextBlocks(const std::filesystem::path& path, InputFormat format, std::size_t block_bytes)
    : stream_(path), format_(format), block_bytes_(block_bytes), place_{stream_.name(), 0, 1} {
  fill();
}

/// Appends a block of the file to `pending_`. If `pending_` is already longer than a block, because it holds
/// no whole line or sentence, reads enough to double its size.
void TextBlocks::fill() {
  const std::size_t before = pending_.size();
  const std::size_t wanted = std::max(block_bytes_, before);
  pending_.resize(before + wanted);
  const std::size_t got = stream_.read(std::span(pending_).subspan(before));
  pending_.resize(before + got);
  at_end_ = got < wanted;
}

/// Returns the last position in `pending_` where a block may end; 0 if there is none. Bytes before `searched`
/// contain no such position.
std::size_t TextBlocks::find_end(std::size_t searched) const {
  const std::string_view text = pending_;
  for (std::size_t end = text.size(); end > searched;) {
    const std::size_t found = text.substr(searched, end - searched).rfind('\n');
    if (found == std::string_view::npos) return 0;
    end = searched + found;
    if (format_ != InputFormat::conllu || ends_blank_line(text, end)) return end + 1;
  }
  return 0;
}

bool TextBlocks::next(TextBlock& block) {
  std::size_t end = find_end(0);
  while (end == 0 && !at_end_) {
    if (pending_.size() > kLongestBlock) {
      fail(Status::bad_input, "{}: line {}: no end within {} bytes; cut it into inputs", place_.file,
           place_.line, kLongestBlock);
    }
    const std::size_t searched = pending_.size() - std::min<std::size_t>(pending_.size(), 2);
    fill();
    end = find_end(searched);
  }
  if (end == 0) end = pending_.size();
  if (end == 0) return false;
  block.place = place_;
  block.text.assign(pending_, 0, end);
  pending_.erase(0, end);
  place_.offset += end;
  place_.line += static_cast<std::uint64_t>(std::count(block.text.begin(), block.text.end(), '\n'));
  if (!at_end_) fill();
  return true;
}

std::uint64_t read_text_inputs(std::string_view text, InputFormat format, const TextPlace& place,
                               std::vector<TextInput>& inputs) {
  require_utf8(text, place);
  const bool marked = place.offset == 0 && text.starts_with(kByteOrderMark);
  if (marked && (format == InputFormat::txt || format == InputFormat::conllu))
    text.remove_prefix(kByteOrderMark.size());
  if (format == InputFormat::txt) return read_lines(text, inputs);
  if (format == InputFormat::conllu) {
    std::vector<ConlluSentence> sentences;
    read_conllu(text, place, sentences);
    for (const ConlluSentence& sentence : sentences) inputs.push_back(text_of(sentence));
    return 0;
  }
  for_each_json_input(text, format, place, [&](const JsonInput& input) {
    if (!input.has_text()) input.refuse("text", "is missing; this command needs text, not tokens or ids");
    inputs.push_back(input.text());
  });
  return 0;
}

}  // namespace attnctl
