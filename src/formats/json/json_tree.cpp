#include "formats/json/json_tree.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/text.hpp"

namespace attnctl {

using nlohmann::ordered_json;

ordered_json parse_json_part(const JsonText& text) {
  JsonTree tree;
  tree.parse(text);
  return tree.take();
}

ordered_json parse_json(const std::string& file, std::string_view text, std::size_t max_depth) {
  const std::string name = escaped(file);
  return parse_json_part({.file = name, .text = text, .max_depth = max_depth});
}

void JsonTree::on_begin(Container container) {
  open_.push_back({container == Container::object ? ordered_json::object() : ordered_json::array(), {}});
}

void JsonTree::on_end(Container container) {
  Open done = std::move(open_.back());
  open_.pop_back();
  if (container == Container::object) refuse_duplicates(done.value);
  put(std::move(done.value));
}

void JsonTree::on_key(std::string& key) {
  open_.back().key = std::move(key);
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
    // Appends to the underlying vector: push_back of an ordered_json searches for the key, which makes large
    // objects quadratic.
    auto& members = open_.back().value.get_ref<ordered_json::object_t&>();
    static_cast<ordered_json::object_t::Container&>(members).emplace_back(std::move(open_.back().key),
                                                                          std::move(value));
  }
}

void JsonTree::refuse_duplicates(const ordered_json& object) const {
  std::vector<const std::string*> keys;
  for (const auto& member : object.get_ref<const ordered_json::object_t&>()) keys.push_back(&member.first);
  const auto less = [](const std::string* a, const std::string* b) { return *a < *b; };
  std::sort(keys.begin(), keys.end(), less);
  const auto equal = [](const std::string* a, const std::string* b) { return *a == *b; };
  const auto twice = std::adjacent_find(keys.begin(), keys.end(), equal);
  if (twice != keys.end()) {
    refuse("got the key " + in_quotes(**twice) + " twice, need different keys");
  }
}

}  // namespace attnctl
