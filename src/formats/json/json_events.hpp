#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.hpp"

namespace attnctl {

/// A JSON document, or a part of one, with what its errors need.
struct JsonText {
  std::string_view file;     // escaped
  std::string_view text;     // one JSON value, white space around it
  std::size_t byte = 0;      // offset of `text` in the file
  std::string pointer = {};  // to the value, where `text` is a part; escaped
  std::size_t max_depth = 64;
};

/// null, true or false, negative and other integers, other numbers, strings.
using JsonScalar = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string*>;

/// What a reader of one kind of document derives from: it is told of each value in turn, so that no tree of
/// them has to be kept. Knows the place, for errors.
class JsonEvents {
 public:
  JsonEvents() = default;
  virtual ~JsonEvents() = default;
  JsonEvents(const JsonEvents&) = delete;
  JsonEvents& operator=(const JsonEvents&) = delete;

  /// Parses strictly: as parse_json, except that duplicate keys are the derived class's to find. Throws
  /// Error(bad_input).
  void parse(const JsonText& text);

 protected:
  enum class Container : bool { object, array };

  virtual void on_begin(Container container) = 0;  // depth() does not count it yet
  virtual void on_end(Container container) = 0;    // depth() does not count it any more
  virtual void on_key(std::string& key) = 0;       // may be moved from
  virtual void on_scalar(const JsonScalar& scalar) = 0;

  /// How many containers are open around the value.
  [[nodiscard]] std::size_t depth() const { return levels_.size(); }
  /// A number that on_scalar() sees as a double, as the text has it; good until it returns.
  [[nodiscard]] std::string_view digits() const { return digits_; }
  /// Bytes of the text that were read; behind a number it may count one byte of what follows.
  [[nodiscard]] std::size_t position() const { return position_; }
  [[nodiscard]] const JsonText& text() const { return *text_; }
  /// The JSON pointer of the value that is being read, escaped; "top level" for the whole.
  [[nodiscard]] std::string pointer() const;
  /// Throws Error(bad_input): file, pointer, byte, `what`.
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  struct Level {
    Container container = Container::object;
    std::size_t count = 0;  // of elements begun
    std::string key;
  };

  /// What the library's parser calls.
  struct Adapter;
  void key(std::string& value);
  void scalar(const JsonScalar& value);
  void begin(Container container);
  void end(Container container);
  void count_element();
  [[noreturn]] void refuse_at(std::size_t byte, std::string_view what) const;

  const JsonText* text_ = nullptr;
  std::size_t position_ = 0;
  std::string_view digits_;
  std::vector<Level> levels_;
};

/// "null", "a string", "-3": a value as errors show it.
[[nodiscard]] std::string describe(const JsonScalar& scalar);

}  // namespace attnctl
