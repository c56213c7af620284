#include "input/text_blocks.hpp"

#include <algorithm>
#include <span>

#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kLongestBlock = std::size_t{1} << 30;

/// Is the line that ends at `end` empty? The first line of a text may have begun before it.
bool is_blank_line(std::string_view text, std::size_t end) {
  const std::size_t before = end > 0 && text[end - 1] == '\r' ? end - 1 : end;
  return before > 0 && text[before - 1] == '\n';
}

}  // namespace

void require_utf8(std::string_view text, const TextPlace& place) {
  const auto bad = find_ill_formed_utf8(text);
  if (!bad) return;
  fail(Status::bad_input, "{}: @byte {}: got 0x{:02x}, which is not UTF-8; convert the text to UTF-8",
       place.file, place.offset + *bad, static_cast<unsigned char>(text[*bad]));
}

TextBlocks::TextBlocks(const std::filesystem::path& path, BlockEnd end, std::size_t block_bytes)
    : stream_(path), end_(end), block_bytes_(block_bytes), place_{stream_.name(), 0, 1} {
  fill();
}

/// Reads a block more; where one was not enough to hold a whole part, as much again as there is.
void TextBlocks::fill() {
  const std::size_t before = pending_.size();
  const std::size_t wanted = std::max(block_bytes_, before);
  pending_.resize(before + wanted);
  const std::size_t got = stream_.read(std::span(pending_).subspan(before));
  pending_.resize(before + got);
  at_end_ = got < wanted;
}

/// The end of the last whole part in what is pending, 0 where there is none; no line ends before `searched`.
std::size_t TextBlocks::find_end(std::size_t searched) const {
  const std::string_view text = pending_;
  for (std::size_t end = text.size(); end > searched;) {
    const std::size_t found = text.substr(searched, end - searched).rfind('\n');
    if (found == std::string_view::npos) return 0;
    end = searched + found;
    if (end_ == BlockEnd::line || is_blank_line(text, end)) return end + 1;
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

}  // namespace attnctl
