#include "attnctl/base/exact_sum.hpp"

#include <cmath>
#include <stdexcept>

namespace attnctl {

void ExactSum::add(double term) {
  if (!(std::abs(term) < 0x1p62)) throw std::domain_error("a term of an exact sum is not below 2^62");
  // Scaling by a power of two is exact, and what is left is a whole number, so the conversion is exact too.
  const auto scaled = static_cast<Fixed>(std::nearbyint(term * 0x1p64));
  if (__builtin_add_overflow(total_, scaled, &total_)) throw std::overflow_error("an exact sum is over 2^63");
}

double ExactSum::value() const {
  return static_cast<double>(total_) * 0x1p-64;
}

std::array<std::uint64_t, 2> ExactSum::words() const {
  __extension__ using Bits = unsigned __int128;
  const auto bits = static_cast<Bits>(total_);
  return {static_cast<std::uint64_t>(bits), static_cast<std::uint64_t>(bits >> 64U)};
}

ExactSum ExactSum::from_words(std::array<std::uint64_t, 2> words) {
  __extension__ using Bits = unsigned __int128;
  ExactSum sum;
  sum.total_ = static_cast<Fixed>(static_cast<Bits>(words[1]) << 64U | words[0]);
  return sum;
}

}  // namespace attnctl
