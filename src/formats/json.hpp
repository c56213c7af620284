#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace attnctl::formats {

/// A JSON value and its location, which error messages report.
struct JsonText {
  std::string_view file;     // escaped
  std::string_view text;     // one JSON value with optional white space around it
  std::size_t byte = 0;      // offset of `text` in the file
  std::string pointer = {};  // escaped JSON pointer to the value if `text` is not the whole file
};

/// A scalar: null, a boolean, an integer with a minus sign, an integer without one, another number, or a
/// string. An integer that does not fit 64 bits is a double.
using JsonScalar = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string*>;

/// Base class of readers that receive the values of a JSON document in their order.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;

  /// Parses a text with the rules of parse_json, except that it does not check for duplicate keys; the
  /// derived class must do this. Throws Error(bad_input).
  void parse(const JsonText& text);

 protected:
  enum class Container : bool { object, array };
  virtual void on_begin(Container container) = 0;  // called before depth() increases
  virtual void on_end(Container container) = 0;    // called after depth() has decreased
  virtual void on_key(std::string& key) = 0;       // the callee may move from `key`
  virtual void on_scalar(const JsonScalar& scalar) = 0;

  [[nodiscard]] std::size_t depth() const { return levels_.size(); }  // number of open containers
  /// The text, as in the document, of the number that on_scalar() receives as a double. The view is valid
  /// until on_scalar() returns.
  [[nodiscard]] std::string_view digits() const { return digits_; }
  /// Returns the number of bytes of the text read so far. Directly after a number, the result may be 1 too
  /// large.
  [[nodiscard]] std::size_t position() const { return position_; }
  [[nodiscard]] const JsonText& text() const { return *text_; }
  /// Returns the JSON pointer of the current value, for messages: escaped, with long keys shortened; "top
  /// level" for the whole document.
  [[nodiscard]] std::string pointer() const;

  [[noreturn]] void refuse(std::string_view what) const {
    refuse_at(position_ == 0 ? 0 : position_ - 1, what);
  }

 private:
  struct OpenLevel {
    Container container = Container::object;
    std::size_t count = 0;  // number of elements or keys so far, including the current one
    std::string key;
  };
  struct Adapter;  // translates the callbacks of nlohmann::json
  [[noreturn]] void refuse_at(std::size_t byte, std::string_view what) const;

  const JsonText* text_ = nullptr;
  std::size_t position_ = 0;
  std::string_view digits_;
  std::vector<OpenLevel> levels_;
};

/// Formats a scalar for an error message: null, true, false, a number such as -3, or a string in quotes.
[[nodiscard]] std::string describe(const JsonScalar& scalar);

/// Parses a JSON document strictly and keeps the order of keys. The text must be UTF-8 without a byte order
/// mark. NaN, numbers too large for a double, lone surrogates, duplicate keys, text after the value, and more
/// than 64 levels of nesting are errors. `file` names the document in error messages. Throws
/// Error(bad_input).
[[nodiscard]] nlohmann::ordered_json parse_json(const std::string& file, std::string_view text);
[[nodiscard]] nlohmann::ordered_json parse_json_part(const JsonText& text);

/// Builds the tree of a document and rejects duplicate keys. A derived class can override the on_* functions
/// to store some of the values elsewhere.
// NOLINTNEXTLINE(bugprone-exception-escape): moving a JSON value checks an invariant and does not throw
class JsonTree : public JsonEvents {
 public:
  [[nodiscard]] nlohmann::ordered_json take() { return std::move(root_); }

 protected:
  void on_begin(Container container) override;
  void on_end(Container container) override;
  void on_key(std::string& key) override { open_.back().key = std::move(key); }
  void on_scalar(const JsonScalar& scalar) override;

 private:
  struct OpenContainer {
    nlohmann::ordered_json value;
    std::string key;
  };
  void put(nlohmann::ordered_json value);

  std::vector<OpenContainer> open_;
  nlohmann::ordered_json root_;
};

}  // namespace attnctl::formats
