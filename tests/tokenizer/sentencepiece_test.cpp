#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"
#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/tokenizer.hpp"

namespace attnctl::test {

using namespace tokenizer;

namespace {

using nlohmann::json;
using Type = SentencePieceModel::Type;

const std::string kGoldens = ATTNCTL_SOURCE_DIR "/tests/golden/sentencepiece/";

// Expected ids are from the sentencepiece library (tests/golden/make_sentencepiece.py).
TEST_CASE("a SentencePiece model gives the library's ids") {
  const json golden = json::parse(slurp(kGoldens + "golden.json"));
  const auto texts = golden.at("texts").get<std::vector<std::string>>();
  for (const char* name :
       {"bpe-bytes", "bpe-defined", "unigram", "unigram-bytes", "unigram-spaces", "unigram-rules"}) {
    CAPTURE(std::string(name));
    const TempDir dir;
    dir.write("tokenizer.model", slurp(kGoldens + name + ".model"));
    const Tokenizer tokenizer = Tokenizer::open({dir.path()});
    const auto state = tokenizer.make_state();
    Encoding encoding;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(texts[i]);
      tokenizer.encode(texts[i], std::nullopt, *state, encoding);
      CHECK(json(encoding.ids) == golden.at(name).at(i));
    }
  }
}

/// Returns a field of the wire format with a length.
std::string field(int number, std::string_view bytes) {
  std::string size;
  for (std::size_t rest = bytes.size(); size.empty() || rest > 0; rest >>= 7U)
    size += static_cast<char>((rest & 0x7FU) | (rest >= 0x80 ? 0x80U : 0U));
  return static_cast<char>(number << 3 | 2) + size.append(bytes);
}
std::string number(int field, int value) {
  const int tag = field << 3;
  std::string bytes;
  if (tag >= 128) bytes += static_cast<char>((tag & 0x7F) | 0x80);
  bytes += static_cast<char>(tag >= 128 ? tag >> 7 : tag);
  return bytes + static_cast<char>(value);
}
std::string piece(std::string_view text, Type type = Type::normal) {
  return field(1, field(1, text) + std::string("\x15\0\0\x80\xBF", 5) + number(3, static_cast<int>(type)));
}

TEST_CASE("fields of a SentencePiece model and their defaults") {
  const SentencePieceModel plain = parse_sentencepiece("f", piece("a") + field(1, field(1, "b")));
  REQUIRE(plain.pieces.size() == 2);
  CHECK(plain.pieces[0].text == "a");
  CHECK(plain.pieces[0].score == -1.0F);
  CHECK(plain.pieces[1].score == 0.0F);
  CHECK(plain.pieces[1].type == Type::normal);
  // Unknown fields are ignored: a number, 8 bytes, a text and 4 bytes.
  const std::string unknown = number(9, 1) +
                              "\x51"
                              "12345678" +
                              field(11, "text") +
                              "\x65"
                              "1234";
  CHECK(parse_sentencepiece("f", unknown + piece("a") + field(1, field(1, "b") + unknown)).pieces.size() ==
        2);
  CHECK(plain.algorithm == SentencePieceModel::Algorithm::unigram);
  CHECK(plain.add_dummy_prefix);
  CHECK(plain.remove_extra_whitespaces);
  CHECK_FALSE(plain.byte_fallback);

  const SentencePieceModel set = parse_sentencepiece(
      "f", piece("<s>", Type::control) + field(2, number(3, 2) + number(35, 1) + number(24, 1)) +
               field(3, field(2, "map") + number(3, 0) + number(4, 0) + number(5, 0)) + field(4, "more"));
  CHECK(set.pieces[0].type == Type::control);
  CHECK(set.algorithm == SentencePieceModel::Algorithm::bpe);
  CHECK(set.byte_fallback);
  CHECK(set.whitespace_as_suffix);
  CHECK(set.charsmap == "map");
  CHECK_FALSE(set.add_dummy_prefix);
  CHECK_FALSE(set.remove_extra_whitespaces);
  CHECK_FALSE(set.escape_whitespaces);
}

TEST_CASE("damaged and unsupported SentencePiece models are errors") {
  struct Row {
    std::string bytes;
    std::string says;
  };
  for (const Row& row : {
           Row{"", "no pieces"},
           Row{"\x0A", "inside a number"},
           Row{"\x0A\x05"
               "ab",
               "longer than"},
           Row{"\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", "longer than"},
           Row{std::string(11, '\xFF'), "ten bytes"},
           Row{field(1, field(1, "\xC3")), "not UTF-8"},
           Row{field(1, ""), "without text"},
           Row{number(1, 3), "another kind"},
           Row{field(1, field(1, "a") + number(3, 7)), "unsupported type"},
           Row{field(1, field(1, "a") + "\x15\x01"), "inside a number"},
           Row{"\x0B", "unsupported kind"},
           Row{std::string("\x02\0", 2), "field number that is 0 or too large"},
           Row{std::string("\x82\x80\x80\x80\x80\x01\0", 7), "field number that is 0 or too large"},
           Row{field(1, field(1, "a") + number(3, 0)), "unsupported type 0"},
           Row{piece("a") + field(2, number(3, 0)), "unsupported model_type 0"},
           Row{piece("a") + field(2, number(3, 4)), "unsupported model_type 4"},
           Row{piece("a") + field(2, number(3, 5)), "unsupported model_type 5"},
           Row{piece(std::string(1025, 'a')) + field(2, number(3, 2)), "unsupported piece of 1025 bytes"},
           Row{"{\"model\": {}}", "not a SentencePiece model"},
           Row{piece("a") + field(2, number(3, 3)), "unsupported model_type 3"},
           Row{piece("a") + field(2, number(24, 1)), "unsupported treat_whitespace_as_suffix"},
           Row{piece("a") + field(3, number(5, 0)), "unsupported escape_whitespaces"},
           Row{piece("a", Type::unused), "unsupported type UNUSED"},
           Row{piece("a") + piece("a") + field(2, number(3, 2)), "twice"},
           Row{field(1, field(1, "a") + std::string("\x15\0\0\xC0\x7F", 5)), "not finite"},
       }) {
    CAPTURE(row.says);
    const TempDir dir;
    dir.write("tokenizer.model", row.bytes);
    CHECK_THROWS_WITH_AS((void)read_tokenizer_file({dir.path()}), doctest::Contains(row.says.c_str()), Error);
  }
}

TEST_CASE("an unsupported tokenizer class is an error, but the vocabulary can be read") {
  const TempDir dir;
  dir.write("sentencepiece.bpe.model", piece("a"));
  dir.write("tokenizer_config.json", R"({"tokenizer_class": "XLMRobertaTokenizer"})");
  CHECK_THROWS_WITH_AS((void)read_tokenizer_file({dir.path()}),
                       doctest::Contains("unsupported \"XLMRobertaTokenizer\""), Error);
  CHECK(read_vocabulary({dir.path()}).id("a") == 0);
}

// Expected ids are from LlamaTokenizer and T5Tokenizer of transformers 5.23.
TEST_CASE("tokenizer_config.json sets the tokens around the text and the sentinels") {
  const std::string model = piece("<unk>", Type::unknown) + piece("<s>", Type::control) +
                            piece("</s>", Type::control) + piece("\u2581") + piece("a");
  const auto ids = [&](const char* config) {
    const TempDir dir;
    dir.write("spiece.model", model);
    dir.write("tokenizer_config.json", config);
    const Tokenizer tokenizer = Tokenizer::open({dir.path()});
    const auto state = tokenizer.make_state();
    Encoding encoding;
    tokenizer.encode("a<extra_id_1>", std::nullopt, *state, encoding);
    return encoding.ids;
  };
  using Ids = std::vector<std::int64_t>;
  CHECK(
      ids(R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": true, "extra_special_tokens": ["<extra_id_1>"]})") ==
      Ids{1, 3, 4, 5});
  CHECK(ids(R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 3})") == Ids{3, 4, 6, 2});
  check_refusal([&] { (void)ids(R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 10001})"); },
                Status::bad_input, {"tokenizer_config.json: /extra_ids: got more than 10000"});
}

}  // namespace
}  // namespace attnctl::test
