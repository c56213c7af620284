#include "formats/json.hpp"

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "checkpoint/checkpoint.hpp"
#include "support/command_refusal.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;
using namespace attnctl::checkpoint;
using namespace attnctl::test;

namespace {

struct Row {
  int kind;
  std::string_view what;
  std::string text;
  std::vector<std::string_view> parts;
};

/// Contents that are errors in a configuration and in weights.
std::vector<Row> bad_json() {
  return {
      {8, "empty", "", {"top level @byte 0", "unexpected end"}},
      {8, "truncated", R"({"a":[1)", {"/a/0"}},
      {9, "garbage after }", "{} x", {"@byte 3"}},
      {9, "NUL after }", std::string("{}\0 x", 5), {"@byte 2", "NUL"}},
      {7, "not UTF-8", "{\"\xc3\":1}", {"UTF-8"}},
      {84, "NaN", R"({"a":[NaN]})", {"/a"}},
      {84, "Infinity", R"({"a":[-Infinity]})", {"/a"}},
      {84, "1e999", R"({"a":[1e999]})", {"/a", "1e999"}},
      {85, "byte order mark", "\xEF\xBB\xBF{}", {"byte order mark"}},
      {85, "lone high surrogate", R"({"a\ud800":1})", {"surrogate"}},
      {85, "lone low surrogate", R"({"\udc00":1})", {"surrogate"}},
      {85, "a control byte in a string", "{\"a\x1b\":1}", {"@byte 3"}},
      {84, "a comment", "{} // x", {"@byte 3"}},
      {84, "a trailing comma", R"({"a":[1,]})", {"/a"}},
      {84, "a single quote", "{'a':1}", {"@byte 1"}},
  };
}

}  // namespace

TEST_CASE("errors of bad JSON documents give a pointer or byte") {
  std::vector<Row> rows = bad_json();
  rows.push_back({82, "100,000 [", std::string(100'000, '['), {"/0/0", "need at most 64 levels"}});
  rows.push_back({82,
                  "100,000 {",
                  [] {
                    std::string text;
                    for (int i = 0; i < 100'000; ++i) text += "{\"a\":";
                    return text;
                  }(),
                  {"/a/a", "need at most 64 levels"}});
  rows.push_back({86, "duplicate key", R"({"a":{"b":1,"c":2,"b":3}})", {"/a", "\"b\" twice"}});
  rows.push_back({86, "duplicate after an escape", R"({"a":1,"\u0061":2})", {"\"a\" twice"}});
  rows.push_back({86, "a long text", "{" + std::string(100'000, 'x'), {"@byte 1"}});
  rows.push_back({86, "a bad key is escaped", R"({"a~/\u001b":{"x":1,"x":2}})", {"/a~0~1\\x1b"}});
  for (const Row& row : rows) {
    CAPTURE(row.kind);
    CAPTURE(row.what);
    auto parts = row.parts;
    parts.emplace_back("config\\x0a.json: ");
    check_refusal([&] { (void)formats::parse_json("config\n.json", row.text); }, Status::bad_input, parts);
  }
}

TEST_CASE("a JSON document keeps the order and values of its members") {
  const auto json = formats::parse_json(
      "f",
      R"( {"z":[1,-2,2.5,true,null,"\u00e9\ud83d\ude00"],"a":{"b":[],"a":{}},"big":18446744073709551615} )");
  CHECK(json.dump() == R"({"z":[1,-2,2.5,true,null,"é😀"],"a":{"b":[],"a":{}},"big":18446744073709551615})");
  CHECK(formats::parse_json("f", "7") == 7);
  CHECK_NOTHROW((void)formats::parse_json("f", std::string(64, '[') + std::string(64, ']')));
  CHECK_THROWS_AS((void)formats::parse_json("f", std::string(65, '[') + std::string(65, ']')), Error);
}

TEST_CASE("an object with a hundred thousand keys takes linear time") {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += fmt::format("{}\"key{}\":{}", i == 0 ? "" : ",", i, i);
  CHECK(formats::parse_json("f", text + "}").size() == 100'000);
  check_refusal([&] { (void)formats::parse_json("f", text + ",\"key5\":0}"); }, Status::bad_input,
                {"\"key5\" twice"});
}

TEST_CASE("errors of bad JSON weights give a pointer") {
  std::vector<Row> rows = bad_json();
  const std::vector<Row> weights = {
      {82, "100,000 [", "{\"a\":" + std::string(100'000, '['), {"/a/0/0", "need at most 64 levels"}},
      {83, "a shorter row", R"({"W_q":[[1,2],[3]]})", {"/W_q/1", "ragged", "got 1 elements, need 2"}},
      {83, "a longer row", R"({"W_q":[[1,2],[3,4,5]]})", {"/W_q/1", "got 3 elements, need 2"}},
      {83, "an empty row", R"({"W_q":[[1],[]]})", {"/W_q/1", "got 0 elements, need 1"}},
      {83, "a number after rows", R"({"W_q":[[1,2],3]})", {"/W_q/1", "ragged", "got a number"}},
      {83, "a row after numbers", R"({"W_q":[1,[2]]})", {"/W_q/1", "ragged", "got an array"}},
      {83, "deeper in one block", R"({"W_q":[[[1],[2]],[[1],[[2]]]]})", {"/W_q/1/1/0", "ragged"}},
      {83, "a block with fewer rows", R"({"W_q":[[[1],[2]],[[1]]]})", {"/W_q/1", "got 1 elements, need 2"}},
      {84, "a number beyond float32", R"({"a":[0,1e39]})", {"/a/1", "float32"}},
      {84,
       "a large integer is a number, a string is not",
       R"({"a":[18446744073709551615,"1"]})",
       {"/a/1", "got \"1\", need a number"}},
      {84, "null", R"({"a":[[null]]})", {"/a/0/0", "got null"}},
      {84, "true", R"({"a":true})", {"/a", "got true"}},
      {84, "an object", R"({"a":[{"b":1}]})", {"/a/0", "got an object"}},
      {86, "duplicate key", R"({"a":[1],"b":[2],"a":[3]})", {"\"a\" twice"}},
      {86, "config twice", R"({"config":{},"config":{}})", {"\"config\" twice"}},
      {86,
       "duplicate in the config",
       R"({"W_q":[1],"config":{"heads":1,"heads":2}})",
       {"/config", "\"heads\" twice"}},
      {84, "a config that is an array", R"({"config":[]})", {"/config", "got an array"}},
      {84, "a config that is text", R"({"config":"x"})", {"/config", "got \"x\""}},
      {84,
       "a config that is huge",
       R"({"config":{"a":")" + std::string(5 << 20, 'a') + "\"}}",
       {"/config", "need at most 4194304"}},
      {10, "top-level array", "[1]", {"top level", "got an array"}},
      {10, "top-level number", "1", {"got 1, need an object"}},
  };
  rows.insert(rows.end(), weights.begin(), weights.end());
  const TempDir folder;
  for (const Row& row : rows) {
    CAPTURE(row.kind);
    CAPTURE(row.what);
    Warnings warnings;
    const auto path = folder.write("weights.json", row.text);
    auto parts = row.parts;
    parts.emplace_back("weights.json: ");
    check_refusal([&] { (void)open_checkpoint(path, warnings); }, Status::bad_input, parts);
    check_weights_refused(path);
  }
}

TEST_CASE("JSON weights are float32, and the nesting gives the shapes") {
  const TempDir folder;
  Warnings warnings;
  const auto path =
      folder.write("weights.json", R"({ "W":[[0.1,-2e-3,3],[4E+1,-0.0,1e-45]], "s" : 7 ,"e":[[],[]],
      "t":[[[1],[2]]],"z":[1e-999,-1e-999,3.4028235e38],
      "config" : {"model_type":"attention","vocab":["a","b"],"n":[[1],[2,3]]} })");
  const auto checkpoint = open_checkpoint(path, warnings);
  struct Want {
    std::string_view name;
    Shape shape;
    std::vector<float> values;
  };
  for (const Want& want :
       {Want{"W", {2, 3}, {0.1F, -2e-3F, 3, 40, -0.0F, 1e-45F}}, Want{"s", {}, {7}}, Want{"e", {2, 0}, {}},
        Want{"t", {1, 2, 1}, {1, 2}}, Want{"z", {3}, {0.0F, -0.0F, 3.4028235e38F}}}) {
    CAPTURE(want.name);
    const std::size_t index = checkpoint->find(want.name);
    REQUIRE(index != Checkpoint::npos);
    CHECK(checkpoint->tensors()[index].shape == want.shape);
    for (int time = 0; time < 2; ++time) {
      const TensorView view = checkpoint->tensor(index);
      std::vector<float> values(want.values.size());
      REQUIRE(view.bytes.size() == values.size() * sizeof(float));
      convert(view.dtype, view.bytes, std::span(values));
      for (std::size_t i = 0; i < values.size(); ++i) {
        CHECK(std::bit_cast<std::uint32_t>(values[i]) == std::bit_cast<std::uint32_t>(want.values[i]));
      }
      checkpoint->release(index);
    }
  }
  REQUIRE(checkpoint->config != nullptr);
  CHECK(checkpoint->config->dump() == R"({"model_type":"attention","vocab":["a","b"],"n":[[1],[2,3]]})");
  CHECK(checkpoint->tensors().size() == 5);
  CHECK(open_checkpoint(folder.write("none.json", R"({"W_q":[1]})"), warnings)->config == nullptr);
}

TEST_CASE("JSON weights that change while they are open are an error") {
  const TempDir folder;
  for (const std::string_view changed :
       {R"({"a":[1, 2,    ]})", R"({"a":[1, 2, -  ]})", R"({"a":[             ]})"}) {
    CAPTURE(changed);
    Warnings warnings;
    const auto path = folder.write("weights.json", R"({"a":[1, 2, -3.5]})");
    const auto checkpoint = open_checkpoint(path, warnings);
    folder.write("weights.json", changed);  // the same file
    check_refusal([&] { (void)checkpoint->tensor(0); }, Status::bad_input,
                  {"weights.json: tensor \"a\"", "the file changed while it was read"});
  }
}
