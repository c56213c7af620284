#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "formats/json/json_events.hpp"

namespace attnctl {

/// Parses a small JSON document strictly: UTF-8 without a byte order mark, no NaN, no numbers out of range,
/// no lone surrogates, no duplicate keys, nothing after the value, nesting up to `max_depth`. Keeps the order
/// of keys. `file` names the document in errors. Throws Error(bad_input).
[[nodiscard]] nlohmann::ordered_json parse_json(const std::string& file, std::string_view text,
                                                std::size_t max_depth = 64);

/// Parses a value that is a part of a file, with the same rules.
[[nodiscard]] nlohmann::ordered_json parse_json_part(const JsonText& text);

/// Builds the tree of a document and refuses duplicate keys. A reader that stores large parts elsewhere
/// derives from it and passes on only the other events.
// NOLINTNEXTLINE(bugprone-exception-escape): moving a JSON value checks an invariant and does not throw
class JsonTree : public JsonEvents {
 public:
  [[nodiscard]] nlohmann::ordered_json take() { return std::move(root_); }

 protected:
  void on_begin(Container container) override;
  void on_end(Container container) override;
  void on_key(std::string& key) override;
  void on_scalar(const JsonScalar& scalar) override;

 private:
  struct Open {
    nlohmann::ordered_json value;
    std::string key;
  };
  void put(nlohmann::ordered_json value);
  void refuse_duplicates(const nlohmann::ordered_json& object) const;

  std::vector<Open> open_;
  nlohmann::ordered_json root_;
};

}  // namespace attnctl
