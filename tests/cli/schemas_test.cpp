#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "support/json_schema.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;

/// Checks that every object declares its properties and allows no others.
void check_strict(const json& schema, const std::string& at) {
  CAPTURE(at);
  if (schema.is_object()) {
    if (schema.contains("properties") && schema.contains("type")) {
      CHECK(schema.value("additionalProperties", true) == false);
      CHECK(schema.contains("required"));
    }
    for (const auto& [name, member] : schema.items()) check_strict(member, at + "/" + name);
  } else if (schema.is_array()) {
    for (const json& member : schema) check_strict(member, at);
  }
}

TEST_CASE("each schema is named after its output and is strict") {
  REQUIRE(cli::schemas().size() >= 2);
  for (const cli::Schema& schema : cli::schemas()) {
    CAPTURE(schema.name);
    const json parsed = json::parse(schema.text);
    const std::string id = "attnctl." + std::string(schema.name) + "/2";
    CHECK(parsed.at("$schema") == "https://json-schema.org/draft/2020-12/schema");
    CHECK(parsed.at("$id") == id);
    CHECK(parsed.at("properties").at("schema").at("const") == id);
    CHECK(schema.text.back() == '\n');
    CHECK(cli::schema_text(schema.name) == schema.text);
    CHECK(cli::schema_text(id) == schema.text);
    check_strict(parsed, "");
    CHECK(schema_breaches(parsed, json::object()).size() == parsed.at("required").size());
  }
}

TEST_CASE("an unknown schema is rejected with the list of names") {
  CHECK_THROWS_WITH_AS((void)cli::schema_text("attnctl.analysis/3"),
                       doctest::Contains("unsupported \"attnctl.analysis/3\"; supported: analysis, "), Error);
}

}  // namespace
}  // namespace attnctl::test
