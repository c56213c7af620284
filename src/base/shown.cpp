#include "base/shown.hpp"

#include "base/error.hpp"

namespace attnctl {
namespace {

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 160;
  constexpr std::size_t kPart = kLongest / 2;
  if (text.size() <= kLongest) return escaped(text);
  std::size_t head = kPart;
  while (head > 0 && continues_character(text[head])) --head;
  std::size_t tail = text.size() - kPart;
  while (tail < text.size() && continues_character(text[tail])) ++tail;
  return escaped(text.substr(0, head)) + "..." + escaped(text.substr(tail));
}

}  // namespace attnctl
