#include "support/json_schema.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

namespace attnctl::test {
namespace {

TEST_CASE("each rule of a schema lets the right through and stops the wrong") {
  struct Row {
    const char* schema;
    const char* right;
    const char* wrong;
    const char* breach;  // the violation reported for `wrong`
  };
  const std::vector<Row> rows = {
      {R"({"type": "integer"})", "3", "3.5", "/: got number, need \"integer\""},
      {R"({"type": ["number", "null"]})", "null", "\"x\"", "/: got string, need [\"number\",\"null\"]"},
      {R"({"enum": ["qk", "ov"]})", "\"ov\"", "\"kq\"", "/: got \"kq\", need one of [\"qk\",\"ov\"]"},
      {R"({"const": "a/1"})", "\"a/1\"", "\"a/2\"", "/: got \"a/2\", need \"a/1\""},
      {R"({"minimum": 0})", "0", "-1", "/: -1 is below 0"},
      {R"({"maximum": 1})", "1", "2", "/: 2 is above 1"},
      {R"({"pattern": "^[0-9]+$"})", "\"12\"", "\"1.2\"", "/: \"1.2\" does not match \"^[0-9]+$\""},
      {R"({"minItems": 1})", "[1]", "[]", "/: 0 items, need at least 1"},
      {R"({"maxItems": 1})", "[1]", "[1, 2]", "/: 2 items, need at most 1"},
      {R"({"items": {"type": "number"}})", "[1, 2]", "[1, \"2\"]", "/1: got string, need \"number\""},
      {R"({"prefixItems": [{"const": 1}], "items": false})", "[1]", "[1, 2]", "/1: must not be there"},
      {R"({"required": ["a"]})", R"({"a": 1})", "{}", "/: \"a\" is missing"},
      {R"({"properties": {"a": {"const": 1}}})", R"({"a": 1, "b": 2})", R"({"a": 2})", "/a: got 2, need 1"},
      {R"({"properties": {"a": true}, "additionalProperties": false})", R"({"a": 1})", R"({"b": 1})",
       "/b: must not be there"},
      {R"({"additionalProperties": {"type": "null"}})", R"({"a": null})", R"({"a": 1})",
       "/a: got number, need \"null\""},
      {R"({"anyOf": [{"const": 1}, {"type": "null"}]})", "null", "2",
       "/: fits none of the choices; of the last: /: got number, need \"null\""},
      {R"({"$defs": {"one": {"const": 1}}, "items": {"$ref": "#/$defs/one"}})", "[1]", "[2]",
       "/0: got 2, need 1"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.schema);
    const auto schema = nlohmann::json::parse(row.schema);
    CHECK(schema_breaches(schema, nlohmann::json::parse(row.right)).empty());
    CHECK(schema_breaches(schema, nlohmann::json::parse(row.wrong)) == std::vector<std::string>{row.breach});
  }
}

TEST_CASE("a rule that the checker does not know is no rule that holds") {
  CHECK_THROWS_AS((void)schema_breaches(nlohmann::json::parse(R"({"uniqueItems": true})"), 1),
                  std::invalid_argument);
}

}  // namespace
}  // namespace attnctl::test
