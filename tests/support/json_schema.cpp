#include "support/json_schema.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace attnctl::test {
namespace {

using nlohmann::json;

bool has_type(const json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_number_integer();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  throw std::invalid_argument("schema: unknown type " + type);
}

class Checker {
 public:
  explicit Checker(const json& root) : root_(root) {}

  void check(const json& schema, const json& value, const std::string& at) {
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) breach(at, "must not be there");
      return;
    }
    for (const auto& [keyword, rule] : schema.items()) {
      const auto known = rules().find(keyword);
      if (known != rules().end()) {
        (this->*known->second)(schema, rule, value, at);
      } else if (annotations().count(keyword) == 0) {
        throw std::invalid_argument("schema: keyword " + keyword + " is not known here");
      }
    }
  }

  std::vector<std::string> breaches;

 private:
  using Rule = void (Checker::*)(const json& schema, const json& rule, const json& value,
                                 const std::string& at);

  static const std::set<std::string>& annotations() {
    static const std::set<std::string> names = {"$schema", "$id", "$defs", "title", "description"};
    return names;
  }

  static const std::map<std::string, Rule>& rules() {
    static const std::map<std::string, Rule> table = {
        {"$ref", &Checker::reference},        {"type", &Checker::type},
        {"enum", &Checker::one_of_values},    {"const", &Checker::constant},
        {"minimum", &Checker::minimum},       {"maximum", &Checker::maximum},
        {"pattern", &Checker::pattern},       {"minItems", &Checker::min_items},
        {"maxItems", &Checker::max_items},    {"prefixItems", &Checker::prefix_items},
        {"items", &Checker::items},           {"required", &Checker::required},
        {"properties", &Checker::properties}, {"additionalProperties", &Checker::additional},
        {"anyOf", &Checker::any_of},
    };
    return table;
  }

  void breach(const std::string& at, const std::string& what) {
    breaches.push_back((at.empty() ? std::string("/") : at) + ": " + what);
  }

  void reference(const json&, const json& rule, const json& value, const std::string& at) {
    const auto name = rule.get<std::string>();
    if (name.rfind("#", 0) != 0) throw std::invalid_argument("schema: reference " + name + " is not local");
    check(root_.at(json::json_pointer(name.substr(1))), value, at);
  }
  void type(const json&, const json& rule, const json& value, const std::string& at) {
    const json types = rule.is_array() ? rule : json::array({rule});
    const bool fits =
        std::any_of(types.begin(), types.end(), [&](const json& one) { return has_type(value, one); });
    if (!fits) breach(at, fmt::format("got {}, need {}", value.type_name(), rule.dump()));
  }
  void one_of_values(const json&, const json& rule, const json& value, const std::string& at) {
    if (std::find(rule.begin(), rule.end(), value) == rule.end())
      breach(at, fmt::format("got {}, need one of {}", value.dump(), rule.dump()));
  }
  void constant(const json&, const json& rule, const json& value, const std::string& at) {
    if (value != rule) breach(at, fmt::format("got {}, need {}", value.dump(), rule.dump()));
  }
  void minimum(const json&, const json& rule, const json& value, const std::string& at) {
    if (value.is_number() && value.get<double>() < rule.get<double>())
      breach(at, fmt::format("{} is below {}", value.dump(), rule.dump()));
  }
  void maximum(const json&, const json& rule, const json& value, const std::string& at) {
    if (value.is_number() && value.get<double>() > rule.get<double>())
      breach(at, fmt::format("{} is above {}", value.dump(), rule.dump()));
  }
  void pattern(const json&, const json& rule, const json& value, const std::string& at) {
    if (value.is_string() &&
        !std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>())))
      breach(at, fmt::format("{} does not match {}", value.dump(), rule.dump()));
  }
  void min_items(const json&, const json& rule, const json& value, const std::string& at) {
    if (value.is_array() && value.size() < rule.get<std::size_t>())
      breach(at, fmt::format("{} items, need at least {}", value.size(), rule.dump()));
  }
  void max_items(const json&, const json& rule, const json& value, const std::string& at) {
    if (value.is_array() && value.size() > rule.get<std::size_t>())
      breach(at, fmt::format("{} items, need at most {}", value.size(), rule.dump()));
  }
  void prefix_items(const json&, const json& rule, const json& value, const std::string& at) {
    if (!value.is_array()) return;
    for (std::size_t i = 0; i < std::min(rule.size(), value.size()); ++i)
      check(rule[i], value[i], fmt::format("{}/{}", at, i));
  }
  void items(const json& schema, const json& rule, const json& value, const std::string& at) {
    if (!value.is_array()) return;
    for (std::size_t i = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0; i < value.size();
         ++i)
      check(rule, value[i], fmt::format("{}/{}", at, i));
  }
  void required(const json&, const json& rule, const json& value, const std::string& at) {
    if (!value.is_object()) return;
    for (const json& name : rule)
      if (!value.contains(name.get<std::string>())) breach(at, fmt::format("{} is missing", name.dump()));
  }
  void properties(const json&, const json& rule, const json& value, const std::string& at) {
    if (!value.is_object()) return;
    for (const auto& [name, schema] : rule.items())
      if (value.contains(name)) check(schema, value.at(name), at + "/" + name);
  }
  void additional(const json& schema, const json& rule, const json& value, const std::string& at) {
    if (!value.is_object()) return;
    for (const auto& [name, member] : value.items())
      if (!schema.contains("properties") || !schema["properties"].contains(name))
        check(rule, member, at + "/" + name);
  }
  void any_of(const json&, const json& rule, const json& value, const std::string& at) {
    std::vector<std::string> of_the_last;
    for (const json& choice : rule) {
      Checker one(root_);
      one.check(choice, value, at);
      if (one.breaches.empty()) return;
      of_the_last = one.breaches;
    }
    breach(at, "fits none of the choices; of the last: " + of_the_last.front());
  }

  const json& root_;
};

}  // namespace

std::vector<std::string> schema_breaches(const json& schema, const json& value) {
  Checker checker(schema);
  checker.check(schema, value, "");
  return checker.breaches;
}

}  // namespace attnctl::test
