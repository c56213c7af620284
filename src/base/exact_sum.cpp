#include "base/exact_sum.hpp"

#include <cmath>
#include <stdexcept>

namespace attnctl {

void ExactSum::add(double term) {
  if (!(std::abs(term) < 0x1p62)) throw std::domain_error("a term of an exact sum is not below 2^62");
  // In parts that 64 bits hold: the processor converts those. All but the rounding of the last one is exact.
  const auto whole = static_cast<std::int64_t>(term);
  const double fraction = (term - static_cast<double>(whole)) * 0x1p32;
  const auto upper = static_cast<std::int64_t>(fraction);
  const double rest = (fraction - static_cast<double>(upper)) * 0x1p32;
  const auto lower = static_cast<std::int64_t>(std::nearbyint(rest));
  const Fixed scaled = (Fixed{whole} << 64) + (Fixed{upper} << 32) + lower;
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
