#pragma once

#include <array>
#include <cstdint>

namespace attnctl {

/// A sum that does not depend on the order of its terms: fixed point of 128 bits with 64 behind the point, so
/// that threads, shards and restarts cannot change a byte. Terms are finite and below 2^62 in magnitude; each
/// is rounded to a multiple of 2^-64.
class ExactSum {
 public:
  void add(double term);
  void merge(const ExactSum& other) { total_ += other.total_; }
  [[nodiscard]] double value() const;

  /// The sum as it is, low half first, for files.
  [[nodiscard]] std::array<std::uint64_t, 2> words() const;
  [[nodiscard]] static ExactSum from_words(std::array<std::uint64_t, 2> words);

 private:
  __extension__ using Fixed = __int128;
  Fixed total_ = 0;
};

}  // namespace attnctl
