#include "base/error.hpp"

#include <cstddef>
#include <cstdint>

#include "base/utf8.hpp"

namespace attnctl {
namespace {

bool is_control(std::string_view sequence) {
  const auto first = static_cast<std::uint8_t>(sequence[0]);
  if (first < 0x20 || first == 0x7F) return true;
  return sequence.size() == 2 && first == 0xC2 && static_cast<std::uint8_t>(sequence[1]) < 0xA0;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    const std::string_view sequence = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || is_control(sequence)) {
      for (const char c : sequence) out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(c));
    } else {
      out += sequence;
    }
    text.remove_prefix(sequence.size());
  }
  return out;
}

}  // namespace attnctl
