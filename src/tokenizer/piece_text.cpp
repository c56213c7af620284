#include "tokenizer/piece_text.hpp"

namespace attnctl {

void PieceText::assign(std::string_view original) {
  text_.assign(original);
  origin_.resize(original.size());
  pieces_.clear();
  std::uint32_t code_points = 0;
  for (std::size_t i = 0; i < original.size();) {
    // A lead byte tells the length of a well-formed sequence.
    const auto lead = static_cast<unsigned char>(original[i]);
    const std::size_t length = lead < 0x80 ? 1U : lead < 0xE0 ? 2U : lead < 0xF0 ? 3U : 4U;
    for (std::size_t k = 0; k < length; ++k) origin_[i + k] = {code_points, code_points + 1};
    ++code_points;
    i += length;
  }
  if (!original.empty()) pieces_.push_back({0, static_cast<std::uint32_t>(original.size())});
}

}  // namespace attnctl
