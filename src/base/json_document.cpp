#include "attnctl/base/json_document.hpp"

#include "attnctl/base/error.hpp"
#include "attnctl/base/json_events.hpp"
#include "attnctl/base/json_part.hpp"
#include "attnctl/base/shown.hpp"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

namespace attnctl {
namespace {

using nlohmann::ordered_json;

/// Builds the tree. An object is sorted at its end to find duplicates, and appended to without the library's
/// search for the key: that search would make a large object quadratic.
// NOLINTNEXTLINE(bugprone-exception-escape): JSON checks itself when it is moved, and does not throw
class TreeBuilder final : public JsonEvents {
 public:
  [[nodiscard]] ordered_json take() { return std::move(root_); }

 private:
  void on_begin(Container container) override {
    open_.push_back({container == Container::object ? ordered_json::object() : ordered_json::array(), {}});
  }

  void on_end(Container container) override {
    Open done = std::move(open_.back());
    open_.pop_back();
    if (container == Container::object) refuse_duplicates(done.value);
    put(std::move(done.value));
  }

  void on_key(std::string& key) override { open_.back().key = std::move(key); }

  void on_scalar(const JsonScalar& scalar) override {
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

  void put(ordered_json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().value.is_array()) {
      open_.back().value.push_back(std::move(value));
    } else {
      auto& members = open_.back().value.get_ref<ordered_json::object_t&>();
      static_cast<ordered_json::object_t::Container&>(members).emplace_back(std::move(open_.back().key),
                                                                            std::move(value));
    }
  }

  void refuse_duplicates(const ordered_json& object) const {
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

  struct Open {
    ordered_json value;
    std::string key;
  };
  std::vector<Open> open_;
  ordered_json root_;
};

}  // namespace

ordered_json parse_json_part(const JsonText& text) {
  TreeBuilder builder;
  builder.parse(text);
  return builder.take();
}

ordered_json parse_json(const std::string& file, std::string_view text, std::size_t max_depth) {
  const std::string name = escaped(file);
  return parse_json_part({.file = name, .text = text, .max_depth = max_depth});
}

}  // namespace attnctl
