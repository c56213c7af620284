#include "tokenizer/models/bpe_cuts.hpp"

#include <algorithm>
#include <bit>

#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kFewestBits = std::size_t{1} << 12;
constexpr std::size_t kMostBits = std::size_t{1} << 20;

}  // namespace

BpeCuts::BpeCuts(std::size_t merges)
    : bits_(std::bit_ceil(std::clamp(merges * 8, kFewestBits, kMostBits)) / 64),
      shift_(64 - std::countr_zero(bits_.size() * 64)) {}

void BpeCuts::put(std::string_view left, std::string_view right) {
  std::size_t end = left.size();
  std::size_t begin = 0;
  const char32_t before = unicode::previous(left, end);
  const std::uint64_t bit = bit_of(before, unicode::next(right, begin));
  bits_[bit / 64] |= std::uint64_t{1} << bit % 64;
}

}  // namespace attnctl
