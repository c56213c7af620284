#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"
#include "tokenizer/parts/part_config.hpp"
#include "tokenizer/parts/parts.hpp"
#include "tokenizer/parts_golden.hpp"
#include "tokenizer/tokenizer.hpp"

namespace attnctl::test {

using namespace tokenizer;

namespace {

PostProcessor post_processor(std::string_view json) {
  static const Vocabulary vocabulary;
  const PartConfig::Json node = PartConfig::Json::parse(json);
  return make_post_processor(PartConfig("tokenizer.json", "/post_processor", node), vocabulary);
}

/// Returns a small byte-level tokenizer with this post-processor. `<m>` takes the white space around it.
Tokenizer tokenizer_with(std::string_view post_processor_json) {
  TempDir directory;
  directory.write("tokenizer.json", fmt::format(R"({{"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{{"id": 6, "content": "<m>", "single_word": false, "lstrip": true, "rstrip": true,
                      "normalized": false, "special": true}}],
    "normalizer": null, "decoder": null,
    "pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true}},
    "model": {{"type": "WordLevel", "unk_token": "?",
              "vocab": {{"a": 0, "\u0120a": 1, "\u0120": 2, "\u0120\u0120": 3, "\u010a\u010a": 4, "?": 5, "<m>": 6}}}},
    "post_processor": {}}})",
                                                post_processor_json));
  return Tokenizer::open({directory.path()});
}

/// Returns one entry per token: ID@BEGIN-END, /WORD if it has one, :TYPE if it is not 0, * if it was added.
std::string line_of(const Encoding& encoding) {
  std::string line;
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    if (i > 0) line += ' ';
    line += fmt::format("{}@{}-{}", encoding.ids[i], encoding.offsets[i].begin, encoding.offsets[i].end);
    if (encoding.words[i]) line += fmt::format("/{}", *encoding.words[i]);
    if (encoding.type_ids[i] != 0) line += fmt::format(":{}", encoding.type_ids[i]);
    if (encoding.special[i] != 0) line += '*';
  }
  return line;
}

// Expected lines are from the Python library tokenizers 0.23.3.
TEST_CASE("post-processors add tokens, types and trimmed offsets as the reference") {
  struct Case {
    std::string_view text;
    std::optional<std::string_view> pair;
    std::string_view line;
  };
  struct Row {
    std::string_view config;
    std::vector<Case> cases;
  };
  const std::vector<Row> rows = {
      {R"({"type": "BertProcessing","sep": ["[S]",9],"cls": ["[C]",8]})",
       {{"a", std::nullopt, "8@0-0* 0@0-1/0 9@0-0*"},
        {"a a", " a", "8@0-0* 0@0-1/0 1@1-3/1 9@0-0* 1@0-2/0:1 9@0-0:1*"},
        {"", std::nullopt, "8@0-0* 9@0-0*"},
        {"", "a", "8@0-0* 9@0-0* 0@0-1/0:1 9@0-0:1*"}}},
      {R"({"type": "RobertaProcessing","sep": ["</s>",9],"cls": ["<s>",8],"trim_offsets": true,"add_prefix_space": true})",
       {{"a", std::nullopt, "8@0-0* 0@0-1/0 9@0-0*"},
        {"a a", " a", "8@0-0* 0@0-1/0 1@2-3/1 9@0-0* 9@0-0* 1@0-2/0 9@0-0*"},
        {"", std::nullopt, "8@0-0* 9@0-0*"},
        {" a  <m> a", std::nullopt, "8@0-0* 1@0-2/0 6@4-7/1 0@8-9/2 9@0-0*"},
        {"  a", "<m>", "8@0-0* 2@0-0/0 1@2-3/1 9@0-0* 9@0-0* 6@0-3/0 9@0-0*"}}},
      {R"({"type": "RobertaProcessing","sep": ["</s>",9],"cls": ["<s>",8],"trim_offsets": true,"add_prefix_space": false})",
       {{" a", std::nullopt, "8@0-0* 1@1-2/0 9@0-0*"},
        {"a  a", " a", "8@0-0* 0@0-1/0 2@2-2/1 1@3-4/2 9@0-0* 9@0-0* 1@1-2/0 9@0-0*"}}},
      {R"({"type": "RobertaProcessing","sep": ["</s>",9],"cls": ["<s>",8],"trim_offsets": false,"add_prefix_space": true})",
       {{" a", std::nullopt, "8@0-0* 1@0-2/0 9@0-0*"}}},
      {R"({"type": "ByteLevel","trim_offsets": true,"add_prefix_space": true})",
       {{" ", std::nullopt, "2@0-0/0"},
        {" <m> a", std::nullopt, "6@0-4/0 0@5-6/1"},
        {"  <m>", std::nullopt, "6@2-5/0"},
        {" a  a  ", std::nullopt, "1@0-2/0 2@3-3/1 1@4-5/2 3@7-7/3"},
        {"  ", std::nullopt, "3@2-2/0"},
        {"\n\na <m> a", std::nullopt, "5@0-1/0 5@1-2/1 0@2-3/2 6@4-7/3 0@8-9/4"},
        {" <m>a", std::nullopt, "6@0-4/0 0@4-5/1"}}},
      {R"({"type": "ByteLevel","trim_offsets": true,"add_prefix_space": false})",
       {{" a  a  ", std::nullopt, "1@1-2/0 2@3-3/1 1@4-5/2 3@7-7/3"},
        {"  ", std::nullopt, "3@2-2/0"},
        {"a <m> \u00E9", std::nullopt, "0@0-1/0 6@2-5/1 5@6-7/2"},
        {"   a", std::nullopt, "3@2-2/0 1@3-4/1"}}},
      {R"({"type": "ByteLevel","trim_offsets": false,"add_prefix_space": true})",
       {{" a a", std::nullopt, "1@0-2/0 1@2-4/1"}, {"a a", " a", "0@0-1/0 1@1-3/1 1@0-2/0:1"}}},
      {R"({"type": "TemplateProcessing","single": [{"SpecialToken": {"id": "[C]","type_id": 0}},{"Sequence": {"id": "A","type_id": 0}},{"SpecialToken": {"id": "[S]","type_id": 3}}],"pair": [{"SpecialToken": {"id": "[C]","type_id": 0}},{"Sequence": {"id": "A","type_id": 0}},{"SpecialToken": {"id": "[S]","type_id": 0}},{"Sequence": {"id": "B","type_id": 1}},{"SpecialToken": {"id": "[S]","type_id": 1}}],"special_tokens": {"[C]": {"id": "[C]","ids": [8],"tokens": ["[C]"]},"[S]": {"id": "[S]","ids": [9,7],"tokens": ["[S]","x"]}}})",
       {{"a", std::nullopt, "8@0-0* 0@0-1/0 9@0-0:3* 7@0-0:3*"},
        {"a a", " a", "8@0-0* 0@0-1/0 1@1-3/1 9@0-0* 7@0-0* 1@0-2/0:1 9@0-0:1* 7@0-0:1*"},
        {"", std::nullopt, "8@0-0* 9@0-0:3* 7@0-0:3*"},
        {"", "", "8@0-0* 9@0-0* 7@0-0* 9@0-0:1* 7@0-0:1*"}}},
      {R"({"type": "TemplateProcessing","single": [{"Sequence": {"id": "A","type_id": 0}},{"Sequence": {"id": "A","type_id": 2}}],"pair": [{"Sequence": {"id": "B","type_id": 1}},{"SpecialToken": {"id": "[C]","type_id": 0}},{"Sequence": {"id": "A","type_id": 4}},{"Sequence": {"id": "B","type_id": 5}}],"special_tokens": {"[C]": {"id": "[C]","ids": [8],"tokens": ["[C]"]},"[S]": {"id": "[S]","ids": [9,7],"tokens": ["[S]","x"]}}})",
       {{"a", std::nullopt, "0@0-1/0 0@0-1/0:2"},
        {"a a", " a", "1@0-2/0:1 8@0-0* 0@0-1/0:4 1@1-3/1:4 1@0-2/0:5"}}},
      {R"({"type": "TemplateProcessing","single": [],"pair": [{"Sequence": {"id": "B","type_id": 0}}],"special_tokens": {"[C]": {"id": "[C]","ids": [8],"tokens": ["[C]"]},"[S]": {"id": "[S]","ids": [9,7],"tokens": ["[S]","x"]}}})",
       {{"a", std::nullopt, ""}, {"a a", " a", "1@0-2/0"}}},
      {R"({"type": "Sequence","processors": [{"type": "ByteLevel","trim_offsets": true,"add_prefix_space": true},{"type": "TemplateProcessing","single": [{"SpecialToken": {"id": "[C]","type_id": 0}},{"Sequence": {"id": "A","type_id": 0}}],"pair": [{"Sequence": {"id": "A","type_id": 0}},{"SpecialToken": {"id": "[S]","type_id": 0}},{"Sequence": {"id": "B","type_id": 1}}],"special_tokens": {"[C]": {"id": "[C]","ids": [8],"tokens": ["[C]"]},"[S]": {"id": "[S]","ids": [9,7],"tokens": ["[S]","x"]}}}]})",
       {{" a a", std::nullopt, "8@0-0* 1@0-2/0 1@3-4/1"},
        {"a a", " a", "0@0-1/0 1@2-3/1 9@0-0* 7@0-0* 1@0-2/0:1"}}},
      {R"({"type": "Sequence","processors": [{"type": "TemplateProcessing","single": [{"Sequence": {"id": "A","type_id": 2}}],"pair": [{"Sequence": {"id": "B","type_id": 1}},{"Sequence": {"id": "A","type_id": 0}}],"special_tokens": {"[C]": {"id": "[C]","ids": [8],"tokens": ["[C]"]},"[S]": {"id": "[S]","ids": [9,7],"tokens": ["[S]","x"]}}},{"type": "BertProcessing","sep": ["[S]",9],"cls": ["[C]",8]}]})",
       {{"a", std::nullopt, "8@0-0* 0@0-1/0:2 9@0-0*"},
        {"a a", " a", "8@0-0* 1@0-2/0:1 9@0-0* 0@0-1/0 1@1-3/1 9@0-0:1*"}}},
      {R"({"type": "Sequence","processors": [{"type": "BertProcessing","sep": ["[S]",9],"cls": ["[C]",8]},{"type": "ByteLevel","trim_offsets": true,"add_prefix_space": true}]})",
       {{"  <m> a", std::nullopt, "8@0-0* 6@2-5/0 0@6-7/1 9@0-0*"},
        {" a", std::nullopt, "8@0-0* 1@0-2/0 9@0-0*"}}},
      {R"({"type": "Sequence","processors": []})", {{"a a", " a", "0@0-1/0 1@1-3/1 1@0-2/0:1"}}}};
  for (const Row& row : rows) {
    CAPTURE(row.config);
    const Tokenizer tokenizer = tokenizer_with(row.config);
    const Tokenizer::StatePtr state = tokenizer.make_state();
    Encoding encoding;
    for (const Case& each : row.cases) {
      CAPTURE(each.text);
      tokenizer.encode(each.text, each.pair, *state, encoding);
      CHECK(line_of(encoding) == each.line);
    }
  }
}

TEST_CASE("special tokens have the sequence of the text before them") {
  const Tokenizer tokenizer = tokenizer_with(R"({"type": "TemplateProcessing",
    "special_tokens": {"s": {"id": "s", "ids": [9, 8], "tokens": ["s", "t"]}},
    "single": [{"SpecialToken": {"id": "s", "type_id": 0}}],
    "pair": [{"SpecialToken": {"id": "s", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}},
             {"SpecialToken": {"id": "s", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]})");
  const Tokenizer::StatePtr state = tokenizer.make_state();
  Encoding encoding;
  tokenizer.encode("a", "a", *state, encoding);
  CHECK(encoding.sequence == std::vector<std::uint8_t>{1, 1, 1, 1, 1, 0});
  tokenizer.encode("a", std::nullopt, *state, encoding);
  CHECK(encoding.sequence == std::vector<std::uint8_t>{0, 0});
}

TEST_CASE("white space at the ends of a token is counted in characters") {
  struct Counted {
    std::string_view token;
    std::uint32_t leading;
    std::uint32_t trailing;
  };
  for (const Counted& row :
       {Counted{"", 0, 0}, Counted{"a", 0, 0}, Counted{"\u0120a", 1, 0}, Counted{" \u0120\u3000a\n", 3, 1},
        Counted{"\u0120\u0120", 2, 2}, Counted{"\u010Aa\u0121", 0, 0}, Counted{"\u00E9 b", 0, 0}}) {
    CAPTURE(row.token);
    CHECK(edge_space(row.token).leading == row.leading);
    CHECK(edge_space(row.token).trailing == row.trailing);
  }
}

TEST_CASE("an unknown or damaged post-processor is an error that names its JSON pointer") {
  check_refused(
      {{R"({"type": "Odd"})",
        {"tokenizer.json: /post_processor/type: unsupported \"Odd\", supported: Sequence, Template"}},
       {R"({"type": "Sequence", "processors": [{"type": "Odd"}]})",
        {"/post_processor/processors/0/type: unsupported"}},
       {R"({"type": "ByteLevel", "trim_offsets": true})", {"/post_processor/add_prefix_space"}},
       {R"({"type": "BertProcessing", "sep": ["S", 1]})", {"/post_processor/cls"}},
       {R"({"type": "BertProcessing", "sep": ["S", -1], "cls": ["C", 2]})",
        {"/post_processor/sep", "found -1"}},
       {R"({"type": "BertProcessing", "sep": ["S"], "cls": ["C", 2]})", {"/post_processor/sep"}},
       {R"({"type": "BertProcessing", "sep": ["S", 1], "cls": ["C", 4294967296]})",
        {"/post_processor/cls", "4294967296"}},
       {R"({"type": "BertProcessing", "sep": ["S", 1], "cls": ["C", 2], "trim_offsets": true,
                       "add_prefix_space": true})",
        {"/post_processor/trim_offsets", "unsupported in BertProcessing"}},
       {R"({"type": "RobertaProcessing", "sep": ["S", 1], "cls": ["C", 2], "trim_offsets": true})",
        {"/post_processor/add_prefix_space", "found nothing"}},
       {R"({"type": "TemplateProcessing", "single": [], "pair": []})", {"/post_processor/special_tokens"}},
       {R"({"type": "TemplateProcessing", "single": "[CLS] $A", "pair": [], "special_tokens": {}})",
        {"/post_processor/single", "array of objects"}},
       {R"({"type": "TemplateProcessing", "single": [], "special_tokens": {},
                       "pair": [{"Sequence": {"id": "C", "type_id": 0}}]})",
        {"/post_processor/pair/0/Sequence/id: unsupported \"C\", supported: A, B"}},
       {R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {},
                       "single": [{"Sequence": {"id": "B", "type_id": 0}}]})",
        {"/post_processor/single/0/Sequence/id", "single text"}},
       {R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {},
                       "single": [{"SpecialToken": {"id": "x", "type_id": 0}}]})",
        {"/post_processor/single/0/SpecialToken/id", "\"x\" is not among"}},
       {R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {"x": {"ids": [1.5]}},
                       "single": [{"SpecialToken": {"id": "x", "type_id": 0}}]})",
        {"/post_processor/special_tokens/x/ids", "1.5"}},
       {R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {},
                       "single": [{"Sequence": {"id": "A"}, "SpecialToken": {"id": "x"}}]})",
        {"/post_processor/single/0: expected an object with either Sequence or SpecialToken"}},
       {R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {}, "single": [{}]})",
        {"/post_processor/single/0: expected an object with either Sequence or SpecialToken"}},
       {R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {},
                       "single": [{"Sequence": {"id": "A", "type_id": "0"}}]})",
        {"/post_processor/single/0/Sequence/type_id", "found string"}},
       {R"({"type": "BertProcessing", "sep": [1, 1], "cls": ["C", 2]})",
        {"/post_processor/sep: expected a token"}},
       {R"({"type": "BertProcessing", "sep": "S", "cls": ["C", 2]})",
        {"/post_processor/sep: expected a token"}},
       {R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {},
                       "single": [{"Token": {"id": "x", "type_id": 0}}]})",
        {"/post_processor/single/0", "unsupported \"Token\", supported: Sequence, SpecialToken"}}},
      post_processor);
}

TEST_CASE("a template of more than 1000 pieces is an error") {
  std::string pieces = R"({"Sequence": {"id": "A", "type_id": 0}})";
  for (int i = 0; i < 1000; ++i) pieces += R"(, {"Sequence": {"id": "A", "type_id": 0}})";
  const std::string config = fmt::format(
      R"({{"type": "TemplateProcessing", "single": [{}], "pair": [], "special_tokens": {{}}}})", pieces);
  check_refusal([&] { (void)post_processor(config); }, Status::bad_input,
                {"/post_processor/single", "at most 1000", "found 1001"});
}

TEST_CASE("a template after one that leaves three pieces is an error") {
  const std::string part = R"({"type": "TemplateProcessing", "special_tokens": {}, "pair": [],
    "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}]})";
  const Tokenizer tokenizer =
      tokenizer_with(fmt::format(R"({{"type": "Sequence", "processors": [{}, {}]}})", part, part));
  const Tokenizer::StatePtr state = tokenizer.make_state();
  Encoding encoding;
  check_refusal([&] { tokenizer.encode("a", std::nullopt, *state, encoding); }, Status::bad_input,
                {"/post_processor/processors/1", "unsupported", "3 parts"});
}

TEST_CASE("a template after one that leaves no text is an error") {
  const std::string none =
      R"({"type": "TemplateProcessing", "special_tokens": {}, "single": [], "pair": []})";
  const Tokenizer tokenizer =
      tokenizer_with(fmt::format(R"({{"type": "Sequence", "processors": [{}, {}]}})", none, none));
  const Tokenizer::StatePtr state = tokenizer.make_state();
  Encoding encoding;
  check_refusal([&] { tokenizer.encode("a", std::nullopt, *state, encoding); }, Status::bad_input,
                {"/post_processor/processors/1", "unsupported", "0 parts"});
}

void decoder(std::string_view json) {
  const PartConfig::Json node = PartConfig::Json::parse(json);
  check_decoder(PartConfig("tokenizer.json", "/decoder", node));
}

TEST_CASE("an unknown or damaged decoder is an error that names its JSON pointer") {
  check_refused({{R"({"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": true})",
                  {"tokenizer.json: /decoder/type: unsupported \"CTC\", supported: Sequence, ByteLevel"}},
                 {R"({"type": "Sequence", "decoders": [{"type": "Odd"}]})",
                  {"/decoder/decoders/0/type: unsupported \"Odd\""}},
                 {R"({"type": "WordPiece"})", {"/decoder/prefix", "found nothing"}},
                 {R"({"type": "Metaspace", "replacement": "ab"})", {"/decoder/replacement"}},
                 {R"({"type": "Replace", "pattern": "a", "content": ""})", {"/decoder/pattern"}},
                 {R"({"type": "Replace", "pattern": {}, "content": ""})", {"/decoder/pattern: unsupported"}},
                 {R"({"type": "BPEDecoder", "suffix": 1})", {"/decoder/suffix: expected a string, found 1"}},
                 {R"({"type": "Strip", "content": " ", "start": "1", "stop": 0})", {"/decoder/start"}}},
                decoder);
}

}  // namespace
}  // namespace attnctl::test
