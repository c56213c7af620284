#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/exact_sum.hpp"
#include "results/results.hpp"

namespace attnctl {

/// Writer of a study state. The bytes are little-endian. Integers have variable length (LEB128), which keeps
/// histograms with many zeros small.
class StateWriter {
 public:
  void number(std::uint64_t value);
  void signed_number(std::int64_t value);
  void flag(bool value) { number(value ? 1 : 0); }
  void real(double value);  // eight bytes
  void floats(std::span<const float> values);
  void sum(const ExactSum& value);
  void text(std::string_view value);
  /// Writes a cell, a list or a record. Throws std::invalid_argument for arrays and tables.
  void value(const Value& value);

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void word(std::uint64_t value);
  std::string bytes_;
};

/// Reader of the bytes of a StateWriter. All functions throw Error(bad_input) if the bytes are damaged.
class StateReader {
 public:
  /// `name` is the file name for errors. The bytes are borrowed.
  StateReader(std::string_view bytes, std::string name) : rest_(bytes), name_(std::move(name)) {}

  [[nodiscard]] std::uint64_t number();
  /// Reads the number of items that follow. Each takes at least one byte, so the result is at most the number
  /// of bytes left and is safe to allocate.
  [[nodiscard]] std::size_t count();
  /// Reads a number and throws if it is not `wanted`. `what` is its name in the error.
  void expect(std::uint64_t wanted, std::string_view what);
  [[nodiscard]] std::int64_t signed_number();
  [[nodiscard]] bool flag() { return number() != 0; }
  [[nodiscard]] double real();
  [[nodiscard]] std::vector<float> floats(std::size_t count);
  [[nodiscard]] ExactSum sum();
  [[nodiscard]] std::string text();
  [[nodiscard]] Value value(int depth = 0);

  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[noreturn]] void damaged(std::string_view what) const;

 private:
  [[nodiscard]] std::string_view take(std::size_t size);
  [[nodiscard]] std::uint64_t word();
  std::string_view rest_;
  std::string name_;
};

}  // namespace attnctl
