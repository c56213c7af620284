#include "tokenizer/piece_text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/error.hpp"

namespace attnctl {
namespace {

// No useful tokenizer makes a text 64 times longer; steps that each double the text would fill the memory.
constexpr std::size_t kSmallestLimit = std::size_t{1} << 20;
constexpr std::size_t kLargestGrowth = 64;
constexpr std::size_t kLargestText = std::numeric_limits<std::uint32_t>::max();  // pieces use 32 bits

}  // namespace

void PieceText::assign(std::string_view original) {
  text_.assign(original);
  limit_ = std::min(kSmallestLimit + kLargestGrowth * original.size(), kLargestText);
  origin_.resize(original.size());
  pieces_.clear();
  std::uint32_t code_points = 0;
  for (std::size_t i = 0; i < original.size();) {
    const auto lead = static_cast<unsigned char>(original[i]);
    const std::size_t length = lead < 0x80 ? 1U : lead < 0xE0 ? 2U : lead < 0xF0 ? 3U : 4U;
    for (std::size_t k = 0; k < length; ++k) origin_[i + k] = {code_points, code_points + 1};
    ++code_points;
    i += length;
  }
  if (!original.empty()) pieces_.push_back({0, static_cast<std::uint32_t>(original.size())});
}

void PieceText::too_long() const {
  fail(Status::limit, "text: the parts of the tokenizer make more than {} bytes of it; check tokenizer.json",
       limit_);
}

}  // namespace attnctl
