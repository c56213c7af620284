#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/numbers.hpp"
#include "results/results.hpp"

namespace attnctl::study {

/// Writer of a study state. The bytes are little-endian. Integers have variable length (LEB128), which keeps
/// histograms with many zeros small.
class StateWriter {
 public:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>(value | 0x80U);
    bytes_ += static_cast<char>(value);
  }
  void signed_number(std::int64_t value) {
    number((static_cast<std::uint64_t>(value) << 1U) ^ (value < 0 ? ~std::uint64_t{0} : 0));
  }
  void flag(bool value) { number(value ? 1 : 0); }
  void real(double value) { raw(std::as_bytes(std::span(&value, 1))); }
  void floats(std::span<const float> values) { raw(std::as_bytes(values)); }
  void sum(const ExactSum& value) { raw(std::as_bytes(std::span<const std::uint64_t>(value.words()))); }
  void text(std::string_view value) {
    number(value.size());
    bytes_ += value;
  }
  /// Writes a Cell, a List or a Record. Throws std::invalid_argument for a Tensor or a Table.
  void value(const Value& value);

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void raw(std::span<const std::byte> bytes) {
    static_assert(std::endian::native == std::endian::little);
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  std::string bytes_;
};

/// Reader of the bytes of a StateWriter, which are borrowed. The functions that read throw Error(bad_input),
/// with the file name `name`, if the bytes are damaged.
class StateReader {
 public:
  StateReader(std::string_view bytes, std::string name) : rest_(bytes), name_(std::move(name)) {}

  [[nodiscard]] std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    damaged("a number has more than 64 bits");
  }
  /// Reads the number of items that follow. Throws if it is larger than the number of bytes left, so that a
  /// caller can allocate memory for all items.
  [[nodiscard]] std::size_t count() {
    const std::uint64_t value = number();
    if (value > rest_.size()) damaged("a count is larger than the rest of the file");
    return value;
  }
  /// Throws if the next number is not `wanted`. `what` names the number in the error message.
  void expect(std::uint64_t wanted, std::string_view what);
  [[nodiscard]] std::int64_t signed_number() {
    const std::uint64_t bits = number();
    return static_cast<std::int64_t>((bits >> 1U) ^ ((bits & 1U) != 0 ? ~std::uint64_t{0} : 0));
  }
  [[nodiscard]] bool flag() { return number() != 0; }
  [[nodiscard]] double real() { return raw<double>(); }
  [[nodiscard]] std::vector<float> floats(std::size_t count);
  [[nodiscard]] ExactSum sum() { return ExactSum::from_words(raw<std::array<std::uint64_t, 2>>()); }
  [[nodiscard]] std::string text() { return std::string(take(count())); }
  [[nodiscard]] Value value(int depth = 0);
  [[nodiscard]] Cell cell() {
    Value read = value();
    if (!std::holds_alternative<Cell>(read.data)) damaged("a value is a list or a record");
    return std::get<Cell>(std::move(read.data));
  }

  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[noreturn]] void damaged(std::string_view what) const;

 private:
  [[nodiscard]] std::string_view take(std::size_t size) {
    if (size > rest_.size()) damaged("the file ends too early");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  template <typename T>
  [[nodiscard]] T raw() {
    T value{};
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string_view rest_;
  std::string name_;
};

// The functions below save, load and merge the state of a measure member by member. They support:
// - unsigned integers, which are merged by addition
// - signed integers, std::string, Cell and pairs, which are only saved and loaded
// - maps, which are merged key by key
// - arrays and vectors, which must have their size before load_state() and merge_state()
// - structs that list their members: auto parts() { return std::tie(rows, weight); }
// - classes with members save(), load() and merge()

template <typename T>
void save_state(StateWriter& out, const T& value) {
  if constexpr (std::unsigned_integral<T>) {
    out.number(value);
  } else if constexpr (std::signed_integral<T>) {
    out.signed_number(value);
  } else if constexpr (std::same_as<T, std::string>) {
    out.text(value);
  } else if constexpr (std::same_as<T, Cell>) {
    out.value(value);
  } else if constexpr (requires(T & parted) { parted.parts(); }) {
    // parts() is not const, so that load_state() can use it; it changes no result.
    std::apply([&](const auto&... parts) { (save_state(out, parts), ...); }, const_cast<T&>(value).parts());
  } else if constexpr (requires { typename T::mapped_type; }) {
    out.number(value.size());
    for (const auto& [key, item] : value) {
      save_state(out, key);
      save_state(out, item);
    }
  } else if constexpr (requires { value.begin(); }) {
    for (const auto& item : value) save_state(out, item);
  } else if constexpr (requires { value.first; }) {
    save_state(out, value.first);
    save_state(out, value.second);
  } else {
    value.save(out);
  }
}

template <typename T>
void load_state(StateReader& in, T& value) {
  if constexpr (std::unsigned_integral<T>) {
    value = in.number();
  } else if constexpr (std::signed_integral<T>) {
    value = in.signed_number();
  } else if constexpr (std::same_as<T, std::string>) {
    value = in.text();
  } else if constexpr (std::same_as<T, Cell>) {
    value = in.cell();
  } else if constexpr (requires { value.parts(); }) {
    std::apply([&](auto&... parts) { (load_state(in, parts), ...); }, value.parts());
  } else if constexpr (requires { typename T::mapped_type; }) {
    value.clear();
    for (std::size_t left = in.count(); left > 0; --left) {
      typename T::key_type key{};
      load_state(in, key);
      load_state(in, value[key]);
    }
  } else if constexpr (requires { value.begin(); }) {
    for (auto& item : value) load_state(in, item);
  } else if constexpr (requires { value.first; }) {
    load_state(in, value.first);
    load_state(in, value.second);
  } else {
    value.load(in);
  }
}

template <typename T>
void merge_state(T& to, const T& from) {
  if constexpr (std::unsigned_integral<T>) {
    to += from;
  } else if constexpr (requires { to.parts(); }) {
    const auto merge_parts = [&](auto&... parts) {
      std::apply([&](const auto&... others) { (merge_state(parts, others), ...); },
                 const_cast<T&>(from).parts());
    };
    std::apply(merge_parts, to.parts());
  } else if constexpr (requires { typename T::mapped_type; }) {
    for (const auto& [key, item] : from) merge_state(to[key], item);
  } else if constexpr (requires { to.begin(); }) {
    for (std::size_t i = 0; i < to.size(); ++i) merge_state(to[i], from.at(i));
  } else {
    to.merge(from);
  }
}

/// Save and load a list with its size.
template <typename Items>
void save_list(StateWriter& out, const Items& list) {
  out.number(list.size());
  save_state(out, list);
}
template <typename T>
void load_list(StateReader& in, std::vector<T>& list) {
  list.clear();
  for (std::size_t left = in.count(); left > 0; --left) load_state(in, list.emplace_back());
}

}  // namespace attnctl::study
