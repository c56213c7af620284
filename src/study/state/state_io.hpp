#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/exact_sum.hpp"
#include "results/result.hpp"

namespace attnctl {

/// Bytes of a study's state: little-endian; whole numbers in as few bytes as they need (LEB128), so that
/// histograms, which are mostly zeros, stay small.
class StateWriter {
 public:
  void number(std::uint64_t value);
  void signed_number(std::int64_t value);
  void flag(bool value) { number(value ? 1 : 0); }
  void real(double value);  // its eight bytes
  void floats(std::span<const float> values);
  void sum(const ExactSum& value);
  void text(std::string_view value);
  /// A cell, a list or a record; arrays and tables are no part of a state.
  void value(const Value& value);

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void word(std::uint64_t value);
  std::string bytes_;
};

/// Reads what StateWriter wrote. Everything throws Error(bad_input) at bytes that are no such state.
class StateReader {
 public:
  /// `name` is the file, for errors. The bytes are borrowed.
  StateReader(std::string_view bytes, std::string name) : rest_(bytes), name_(std::move(name)) {}

  [[nodiscard]] std::uint64_t number();
  /// A count of things that take at least a byte each: never more than there are bytes left, so that it may
  /// be allocated.
  [[nodiscard]] std::size_t count();
  /// A number that must be this one; `what` is for the error.
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
