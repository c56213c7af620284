#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "support/refusal.hpp"
#include "tokenizer/parts/parts.hpp"

using attnctl::Decoder;
using attnctl::make_decoder;
using attnctl::PartConfig;
using attnctl::Status;
using attnctl::test::check_refusal;

namespace {

Decoder decoder(std::string_view json) {
  const PartConfig::Json node = PartConfig::Json::parse(json);
  return make_decoder(PartConfig("tokenizer.json", "/decoder", node));
}

}  // namespace

// Expected texts are those of the Python library tokenizers 0.23.3 for a token between two others, except
// that the library has U+FFFD for bytes and adds spaces between the words of WordPiece.
TEST_CASE("decoders return the text of a token") {
  struct Case {
    std::string_view token;
    std::string_view text;
  };
  struct Row {
    std::string_view config;
    std::vector<Case> cases;
  };
  for (const Row& row : {
           Row{R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})",
               {{"\u0120the", " the"},
                {"\u00C3\u00A9", "\u00E9"},
                {"\u00E2\u0138", "<0xE2><0x96>"},
                {"a\u00E2", "a<0xE2>"},
                {"\u010A", "\n"},
                {"\u00E9\u65E5", "\u00E9\u65E5"},
                {"a b", "a b"}}},
           Row{R"({"type": "WordPiece", "prefix": "##", "cleanup": true})",
               {{"##ing", "ing"}, {"the", "the"}, {"#a", "#a"}}},
           Row{R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})",
               {{"\u2581the", " the"}, {"a\u2581\u2581b", "a  b"}}},
           Row{R"({"type": "BPEDecoder", "suffix": "</w>"})", {{"the</w>", "the "}, {"th", "th"}}},
           Row{R"({"type": "ByteFallback"})",
               {{"<0xE2>", "<0xE2>"},
                {"<0x41>", "A"},
                {"<0x0a>", "\n"},
                {"<0xZZ>", "<0xZZ>"},
                {"<0x4>", "<0x4>"}}},
           Row{R"({"type": "Fuse"})", {{"a", "a"}}},
           Row{R"({"type": "Strip", "content": "_", "start": 1, "stop": 2})",
               {{"__a___", "_a_"}, {"_", ""}, {"a", "a"}}},
           Row{R"({"type": "Replace", "pattern": {"String": "▁"}, "content": " "})",
               {{"\u2581a\u2581", " a "}}},
           Row{R"({"type": "Replace", "pattern": {"Regex": "[0-9]+"}, "content": "N$0"})",
               {{"a12b3", "aN$0bN$0"}}},
           Row{R"({"type": "Sequence", "decoders": [
                   {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                   {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})",
               {{"\u2581the", " the"}, {"<0xE2>", "<0xE2>"}, {"<0x21>", "!"}}},
           Row{R"({"type": "Sequence", "decoders": [{"type": "Strip", "content": "a", "start": 1, "stop": 0},
                   {"type": "Fuse"}]})",
               {{"aab", "ab"}}},
       }) {
    CAPTURE(row.config);
    const Decoder made = decoder(row.config);
    for (const Case& each : row.cases) {
      CAPTURE(each.token);
      CHECK(made(each.token) == each.text);
    }
  }
}

TEST_CASE("an unknown or damaged decoder is an error that names its JSON pointer") {
  struct Refused {
    std::string_view config;
    std::vector<std::string_view> parts;
  };
  for (const Refused& row : {
           Refused{R"({"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": true})",
                   {"tokenizer.json: /decoder/type: unsupported \"CTC\", supported: Sequence, ByteLevel"}},
           Refused{R"({"type": "Sequence", "decoders": [{"type": "Odd"}]})",
                   {"/decoder/decoders/0/type: unsupported \"Odd\""}},
           Refused{R"({"type": "WordPiece"})", {"/decoder/prefix", "found nothing"}},
           Refused{R"({"type": "Metaspace", "replacement": "ab"})", {"/decoder/replacement"}},
           Refused{R"({"type": "Replace", "pattern": "a", "content": ""})", {"/decoder/pattern"}},
           Refused{R"({"type": "Replace", "pattern": {}, "content": ""})", {"/decoder/pattern: unsupported"}},
           Refused{R"({"type": "Strip", "content": " ", "start": "1", "stop": 0})", {"/decoder/start"}},
       }) {
    CAPTURE(row.config);
    check_refusal([&] { (void)decoder(row.config); }, Status::bad_input, row.parts);
  }
}
