#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "formats/json/json_events.hpp"

namespace attnctl {

/// Builds the tree of a document; refuses duplicate keys. A reader that keeps large parts elsewhere derives
/// from it and hands on only the events of the rest. An object is sorted at its end to find duplicates, and
/// appended to without the library's search for the key: that search would make a large object quadratic.
// NOLINTNEXTLINE(bugprone-exception-escape): JSON checks itself when it is moved, and does not throw
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
