#include "formats/json.hpp"

#include <algorithm>
#include <iterator>
#include <type_traits>

#include <fmt/format.h>

#include "base/text.hpp"
#include "formats/json_templates.hpp"

template class nlohmann::basic_json<nlohmann::ordered_map>;
template class std::vector<nlohmann::ordered_json>;

namespace attnctl::formats {
namespace {

constexpr std::size_t kMaxDepth = 64;

/// An iterator over the text. It counts the bytes that are read; all copies of the iterator use the same
/// counter.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  std::size_t* count_;
};

/// Returns the parser's error message without its prefix ("[json.exception...] parse error at line 1, column
/// 2: ") and without the part "; last read: ...", which may be very long. Keeps "; expected ..." after this
/// part.
std::string reason(std::string_view what) {
  what.remove_prefix(what.find("] ") + 2);
  if (what.starts_with("parse error at ")) what.remove_prefix(what.find(": ") + 2);
  std::string_view wanted;
  const std::size_t read = what.find("; last read: ");
  if (read != std::string_view::npos) {
    const std::size_t expected = what.rfind("; expected ");
    if (expected != std::string_view::npos && expected > read) wanted = what.substr(expected);
    what = what.substr(0, read);
  }
  return shown(what) + shown(wanted);
}

}  // namespace

struct JsonEvents::Adapter {
  using Json = nlohmann::ordered_json;
  JsonEvents& events;

  bool null() { return scalar(nullptr); }
  bool boolean(bool value) { return scalar(value); }
  bool number_integer(Json::number_integer_t value) { return scalar(std::int64_t{value}); }
  bool number_unsigned(Json::number_unsigned_t value) { return scalar(std::uint64_t{value}); }
  bool number_float(Json::number_float_t value, const std::string& digits) {
    events.digits_ = digits;
    return scalar(value);
  }
  bool string(std::string& value) { return scalar(&value); }
  bool binary(Json::binary_t& /*value*/) { return false; }  // never called
  bool start_object(std::size_t /*count*/) { return begin(Container::object); }
  bool start_array(std::size_t /*count*/) { return begin(Container::array); }
  bool end_object() { return end_array(); }
  bool end_array() {
    const Container container = events.levels_.back().container;
    events.levels_.pop_back();
    events.on_end(container);
    return true;
  }
  bool key(std::string& value) {
    events.levels_.back().key = value;
    ++events.levels_.back().count;
    events.on_key(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*last_token*/, const Json::exception& error) {
    events.refuse_at(position == 0 ? 0 : position - 1, reason(error.what()));
  }

 private:
  bool scalar(const JsonScalar& value) {
    count_element();
    events.on_scalar(value);
    return true;
  }
  bool begin(Container container) {
    count_element();
    if (events.levels_.size() >= kMaxDepth)
      events.refuse(fmt::format("got deeper nesting, need at most {} levels", kMaxDepth));
    events.on_begin(container);
    events.levels_.push_back({container, 0, {}});
    return true;
  }
  void count_element() {
    if (!events.levels_.empty() && events.levels_.back().container == Container::array)
      ++events.levels_.back().count;
  }
};

void JsonEvents::parse(const JsonText& text) {
  text_ = &text;
  position_ = 0;
  levels_.clear();
  if (text.text.starts_with("\xEF\xBB\xBF")) refuse_at(0, "got a byte order mark, need plain UTF-8");
  // A NUL byte is rejected here, because the parser would treat it as the end of the text.
  const std::size_t nul = text.text.find('\0');
  if (nul != std::string_view::npos) refuse_at(nul, "got a NUL byte, need JSON");
  const char* const begin = text.text.data();
  Adapter adapter{*this};
  nlohmann::ordered_json::sax_parse(CountingIterator(begin, &position_),
                                    CountingIterator(begin + text.text.size(), &position_), &adapter);
}

std::string JsonEvents::pointer() const {
  nlohmann::ordered_json::json_pointer path;
  for (const OpenLevel& level : levels_) {
    if (level.count == 0) break;  // no element or key of the container was read yet
    level.container == Container::array ? path /= level.count - 1 : path /= shown(level.key);
  }
  const std::string whole = text_->pointer + path.to_string();
  return whole.empty() ? "top level" : whole;
}

void JsonEvents::refuse_at(std::size_t byte, std::string_view what) const {
  fail(Status::bad_input, "{}: {} @byte {}: {}", text_->file, pointer(), text_->byte + byte, what);
}

std::string describe(const JsonScalar& scalar) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::nullptr_t>) {
          return "null";
        } else if constexpr (std::is_same_v<T, std::string*>) {
          return in_quotes(*value);
        } else {
          return fmt::to_string(value);
        }
      },
      scalar);
}

using nlohmann::ordered_json;

ordered_json parse_json_part(const JsonText& text) {
  JsonTree tree;
  tree.parse(text);
  return tree.take();
}

ordered_json parse_json(const std::string& file, std::string_view text) {
  return parse_json_part({.file = escaped(file), .text = text});
}

void JsonTree::on_begin(Container container) {
  open_.push_back({container == Container::object ? ordered_json::object() : ordered_json::array(), {}});
}

void JsonTree::on_end(Container container) {
  OpenContainer done = std::move(open_.back());
  open_.pop_back();
  if (container == Container::object) {
    std::vector<std::string_view> keys;
    for (const auto& member : done.value.get_ref<const ordered_json::object_t&>())
      keys.push_back(member.first);
    std::ranges::sort(keys);
    const auto twice = std::ranges::adjacent_find(keys);
    if (twice != keys.end()) refuse("got the key " + in_quotes(*twice) + " twice, need different keys");
  }
  put(std::move(done.value));
}

void JsonTree::on_scalar(const JsonScalar& scalar) {
  put(std::visit(
      [](auto value) -> ordered_json {
        if constexpr (std::is_same_v<decltype(value), std::string*>) {
          return std::move(*value);
        } else {
          return value;
        }
      },
      scalar));
}

void JsonTree::put(ordered_json value) {
  if (open_.empty()) {
    root_ = std::move(value);
  } else if (open_.back().value.is_array()) {
    open_.back().value.push_back(std::move(value));
  } else {
    // Appends to the underlying vector, because push_back of an ordered_json first searches for the key,
    // which takes quadratic time for large objects.
    auto& members = open_.back().value.get_ref<ordered_json::object_t&>();
    static_cast<ordered_json::object_t::Container&>(members).emplace_back(std::move(open_.back().key),
                                                                          std::move(value));
  }
}

}  // namespace attnctl::formats
