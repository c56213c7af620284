#include "input/sequences.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "input/words.hpp"
#include "support/bytes.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;
using namespace attnctl::input;

namespace {

tokenizer::Vocabulary small_vocabulary() {
  return {{"[CLS]", "[SEP]", "the", "an", "##imal", "it", "IT", "7"}, {0}};
}

/// For documents without text.
void read(const std::string& text, InputFormat format, const std::string& name, Batch& batch) {
  const tokenizer::Vocabulary vocabulary = small_vocabulary();
  TextEncoder encoder({}, "model.npz");
  read_sequences({{name, 0, 1}, text}, format, vocabulary, encoder, batch);
}

}  // namespace

TEST_CASE("sequences come from JSON and JSON Lines, ids or tokens") {
  Batch batch;
  read(R"({"ids": [0, 2, 1]})", InputFormat::json, "a.json", batch);
  read(R"([{"tokens": ["the", "an", "##imal"], "id": "x", "mask": [1, 1, 0]}, {"ids": [5], "id": 9}])",
       InputFormat::json, "b.json", batch);
  read("\n{\"ids\": [2, 3], \"token_type_ids\": [0, 1]}\r\n\n{\"tokens\": [\"it\"]}", InputFormat::jsonl,
       "c.jsonl", batch);
  finish_batch(batch, small_vocabulary());
  REQUIRE(batch.sequences.size() == 5);
  CHECK(batch.sequences[0].id == "0");
  CHECK(batch.sequences[0].ids == std::vector<std::int64_t>{0, 2, 1});
  CHECK(batch.sequences[0].tokens == std::vector<std::string>{"[CLS]", "the", "[SEP]"});
  CHECK(batch.sequences[0].special == std::vector<std::uint8_t>{1, 0, 1});
  CHECK(batch.sequences[0].separator == std::vector<std::uint8_t>{0, 0, 1});
  CHECK(batch.sequences[1].id == "x");
  CHECK(batch.sequences[1].ids == std::vector<std::int64_t>{2, 3, 4});
  CHECK(batch.sequences[1].key_visible == std::vector<std::uint8_t>{1, 1, 0});
  CHECK(batch.sequences[2].id == "9");
  CHECK(batch.sequences[3].token_type_ids == std::vector<std::int64_t>{0, 1});
  CHECK(batch.sequences[4].id == "4");
}

TEST_CASE("errors of bad sequences give the file and position") {
  struct Row {
    int kind;  // of the list of bad inputs; 0: not in it
    std::string text;
    std::string says;
  };
  for (const Row& row : {
           Row{102, R"({"ids": [3, -1]})", "line 1: /ids/1: got -1"},
           Row{104, R"({"ids": [3.0]})", "line 1: /ids/0: got 3.0"},
           Row{104, "{\"ids\": [3]}\n{\"ids\": [\"3\"]}", "line 2: /ids/0"},
           Row{0, R"({"tokens": ["the", "cat"]})", "\"cat\" is not in the model's vocabulary"},
           Row{0, R"({"tokens": ["the", "an", 3]})", "/tokens/2"},
           Row{0, R"({"ids": [1], "tokens": ["the"]})", "exactly one"},
           Row{0, R"({"id": "x"})", "exactly one"},
           Row{0, R"({"ids": [1], "masks": [1]})", "unsupported key"},
           Row{114, R"({"ids": [1, 2], "mask": [1]})", "got 1 value, need 2"},
           Row{115, R"({"ids": [1, 2], "mask": [1, 2]})", "/mask/1: got 2"},
           Row{0, R"([1])", "need an object"},
           Row{0, R"({"text": "a", "ids": [1]})", "exactly one"},
           Row{0, R"({"text": "a", "mask": [1]})", "/mask: cannot be used together with \"text\""},
           Row{0, R"({"ids": [1], "text_pair": "a"})", "/text_pair: cannot be used together with \"ids\""},
           Row{0, R"({"text_pair": "a"})", "exactly one"},
           Row{0, R"({"ids": [1], "target_ids": [1, "2"]})", "/target_ids/1: got \"2\""},
           Row{0, R"({"ids": [1], "target_ids": [1], "target": "a"})",
               "/target_ids: cannot be used together with \"target\""},
           Row{0, R"({"text": 1})", "line 1: /text: expected a string, found 1"},
           Row{85, R"({"text": "\ud800"})", "line 1"},
           Row{0, "{\"text\": \"\xff\"}", "line 1: got 0xff as byte 11 of the line"},
           Row{86, R"({"ids": [1], "ids": [2]})", "ids"},
           Row{82, std::string(100'000, '['), "line 1"},
       }) {
    CAPTURE(row.kind);
    CAPTURE(row.text.substr(0, 80));
    Batch batch;
    try {
      read(row.text, InputFormat::jsonl, "x.jsonl", batch);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.status() == Status::bad_input);
      CHECK_MESSAGE(std::string(error.what()).find("x.jsonl") == 0, error.what());
      CHECK_MESSAGE(std::string(error.what()).find(row.says) != std::string::npos, error.what());
    }
  }
}

TEST_CASE("every object may have a target, whose text needs a start token") {
  Batch batch;
  read(R"([{"ids": [2, 3], "target_ids": [0, 2, 1]}, {"tokens": ["it"], "target_ids": [4]}, {"ids": [5]}])",
       InputFormat::json, "x.json", batch);
  finish_batch(batch, small_vocabulary());
  REQUIRE(batch.sequences[0].target);
  CHECK(batch.sequences[0].target->ids == std::vector<std::int64_t>{0, 2, 1});
  CHECK(batch.sequences[0].target->tokens == std::vector<std::string>{"[CLS]", "the", "[SEP]"});
  CHECK(&batch.sequences[0].predicted() == batch.sequences[0].target.get());
  CHECK(batch.sequences[1].target->ids == std::vector<std::int64_t>{4});
  CHECK_FALSE(batch.sequences[2].target);
  CHECK(&batch.sequences[2].predicted() == &batch.sequences[2]);
  CHECK_THROWS_WITH_AS(read(R"({"ids": [2], "target": "the"})", InputFormat::json, "x.json", batch),
                       doctest::Contains("model.npz: the text of a target needs the start token"), Error);
}

TEST_CASE("an empty sequence and a repeated id are rejected") {
  Batch batch;
  batch.sequences.emplace_back();
  CHECK_THROWS_WITH_AS(finish_batch(batch, {}), doctest::Contains("empty sequence"), Error);
  batch.sequences.clear();
  for (int i = 0; i < 2; ++i) {
    batch.sequences.emplace_back().ids = {1};
    batch.sequences.back().id = "same";
  }
  CHECK_THROWS_WITH_AS(finish_batch(batch, {}), doctest::Contains("occurs twice"), Error);
}

TEST_CASE("tokens need the vocabulary of the model") {
  Batch batch;
  TextEncoder encoder({}, "model.npz");
  const auto refuses = [&](const std::string& text, const tokenizer::Vocabulary& vocabulary,
                           std::string_view says) {
    test::check_refusal(
        [&] {
          read_sequences({{"x.json", 0, 1}, text}, InputFormat::json, vocabulary, encoder, batch);
        },
        Status::bad_input, {"x.json: /tokens", says});
  };
  refuses(R"({"tokens": ["the"]})", {}, "no vocabulary, so tokens have no ids; give \"ids\" instead");
  refuses(R"({"tokens": "the"})", small_vocabulary(), "need an array of strings");
}

TEST_CASE("an empty sequence of a corpus is an error that names its line") {
  const test::TempDir folder;
  const tokenizer::Vocabulary vocabulary = small_vocabulary();
  TextEncoder encoder({}, "model.npz");
  SentenceStream stream(folder.write("x.jsonl", "{\"ids\": [1]}\n{\"ids\": []}\n"), InputFormat::jsonl,
                        encoder, vocabulary);
  CHECK(stream.next().has_value());
  test::check_refusal([&] { (void)stream.next(); }, Status::bad_input,
                      {"x.jsonl: line 2: got an empty sequence, need at least one token"});
}

TEST_CASE("--ids takes integers separated by commas") {
  CHECK(parse_ids("101,7592 , 102 ") == std::vector<std::int64_t>{101, 7592, 102});
  for (const char* bad : {"", "1,", ",1", "-1", "1.5", "1,a", "99999999999999999999", "1 2"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS((void)parse_ids(bad), Error);
  }
}

TEST_CASE("find_word finds words, tokens and positions") {
  Batch batch;
  read(R"({"tokens": ["[CLS]", "the", "an", "##imal", "it", "the", "IT", "[SEP]"]})", InputFormat::json, "a",
       batch);
  finish_batch(batch, small_vocabulary());
  struct Row {
    std::string word;
    std::vector<std::size_t> want;
  };
  for (const Row& row : {
           Row{"the", {1}},
           Row{"the#2", {5}},
           Row{"the#3", {}},
           Row{"the#0", {}},
           Row{"the#x", {}},
           Row{"animal", {2, 3}},
           Row{"##imal", {3}},
           Row{"Animal", {2, 3}},
           Row{"it", {4}},
           Row{"IT", {6}},
           Row{"[SEP]", {7}},
           Row{"3", {3}},
           Row{"8", {}},
           Row{"cat", {}},
       }) {
    CAPTURE(row.word);
    CHECK(find_word(batch.sequences[0], small_vocabulary(), row.word) == row.want);
  }
}

TEST_CASE("text without a tokenizer is rejected with the alternatives") {
  Batch batch;
  CHECK_THROWS_WITH_AS(
      read(R"({"text": "the animal"})", InputFormat::jsonl, "x.jsonl", batch),
      "model.npz: no tokenizer; a text needs a model directory with tokenizer.json, vocab.txt, vocab.json "
      "with merges.txt, tokenizer.model, spiece.model or sentencepiece.bpe.model; without a tokenizer, give "
      "--ids 1,2,3, or --input FILE.jsonl with \"ids\" or \"tokens\"",
      Error);
}

TEST_CASE("truncation cuts ids, token types and masks together") {
  Batch batch;
  read(R"([{"ids": [0, 2, 1], "token_type_ids": [0, 0, 1], "mask": [1, 0, 1]}, {"ids": [2, 3]}])",
       InputFormat::json, "a.json", batch);
  truncate_ids(batch, 2);
  CHECK(batch.sequences[0].ids == std::vector<std::int64_t>{0, 2});
  CHECK(batch.sequences[0].token_type_ids.size() == 2);
  CHECK(batch.sequences[0].key_visible.size() == 2);
  CHECK(batch.sequences[0].truncated == 1);
  CHECK(batch.sequences[1].truncated == 0);
}

namespace attnctl::test {

using namespace input;

namespace {

/// [CLS] first [SEP], or [CLS] first [SEP] second [SEP], whose tokens have these offsets; ids count from 0.
tokenizer::Encoding encoding_of(const std::vector<tokenizer::TextRange>& first,
                                const std::vector<tokenizer::TextRange>* second = nullptr) {
  tokenizer::Encoding encoding;
  const auto add = [&](tokenizer::TextRange range, bool special, std::uint8_t sequence) {
    encoding.ids.push_back(static_cast<std::int64_t>(encoding.ids.size()));
    encoding.type_ids.push_back(sequence);
    encoding.offsets.push_back(range);
    encoding.words.push_back(special ? std::nullopt : std::optional<std::uint32_t>(0));
    encoding.special.push_back(special ? 1 : 0);
    encoding.sequence.push_back(sequence);
  };
  add({}, true, 0);
  for (const tokenizer::TextRange range : first) add(range, false, 0);
  add({}, true, 0);
  if (second == nullptr) return encoding;
  for (const tokenizer::TextRange range : *second) add(range, false, 1);
  add({}, true, 1);
  return encoding;
}

using Words = std::vector<std::optional<std::size_t>>;
constexpr std::nullopt_t kNone = std::nullopt;

TEST_CASE("tokens get the words that their ranges overlap") {
  // "  The tired.": "▁The" with a space, a single "▁", "tir", "ed.", and an empty token
  const tokenizer::Encoding encoding = encoding_of({{1, 5}, {0, 1}, {6, 9}, {9, 12}, {12, 12}});
  const Sequence sequence = make_text_sequence({"x", "  The tired.", {}, {}}, encoding);
  CHECK(sequence.id == "x");
  CHECK(sequence.text == "  The tired.");
  CHECK((sequence.word_texts == std::vector<std::string>{"The", "tired."}));
  CHECK((sequence.words == Words{kNone, 0, kNone, 1, 1, kNone, kNone}));
  CHECK(sequence.shared_tokens.empty());
  CHECK(sequence.special == std::vector<std::uint8_t>{1, 0, 0, 0, 0, 0, 1});
  CHECK(sequence.text_index.empty());
}

TEST_CASE("words of the second text follow those of the first, and a token may have several words") {
  const std::vector<tokenizer::TextRange> second = {{0, 6}, {7, 9}};
  const tokenizer::Encoding encoding = encoding_of({{0, 3}}, &second);
  const Sequence sequence = make_text_sequence({"", "One", "cannot go", {}}, encoding);
  CHECK((sequence.words == Words{kNone, 0, kNone, 1, 2, kNone}));
  CHECK((sequence.text_index == std::vector<std::optional<std::uint8_t>>{kNone, 0, kNone, 1, 1, kNone}));
  CHECK(sequence.token_type_ids == std::vector<std::int64_t>{0, 0, 0, 1, 1, 1});

  const tokenizer::Encoding alone = encoding_of({{0, 6}, {7, 9}});
  const std::vector<TextWord> treebank = {{"can", {0, 3}}, {"not", {3, 6}}, {"go", {7, 9}}, {"gone", {9, 9}}};
  const Sequence shared = make_text_sequence({"", "cannot go", {}, treebank}, alone);
  CHECK((shared.words == Words{kNone, 0, 2, kNone}));
  CHECK((shared.shared_tokens == std::vector<Sequence::SharedToken>{{1, 1}}));
  CHECK(shared.word_texts.size() == 4);
}

TEST_CASE("a token is put before the tokens of a text") {
  const std::vector<TextWord> words = {{"can", {0, 3}}, {"not", {3, 6}}};
  Sequence text = make_text_sequence({"", "cannot", {}, words}, encoding_of({{0, 6}}));
  put_first(7, text);
  CHECK((text.ids == std::vector<std::int64_t>{7, 0, 1, 2}));
  CHECK(text.special == std::vector<std::uint8_t>{1, 1, 0, 1});
  CHECK(text.token_type_ids.size() == 4);
  CHECK((text.words == Words{kNone, kNone, 0, kNone}));
  CHECK((text.shared_tokens == std::vector<Sequence::SharedToken>{{2, 1}}));
  CHECK(find_in_text(text, "not").positions == std::vector<std::size_t>{2});
}

TEST_CASE("the last token of a text is the one before the tokens that the tokenizer appends") {
  CHECK(last_of_text(make_text_sequence({"", "a b", {}, {}}, encoding_of({{0, 1}, {2, 3}}))) == 2);
  CHECK(last_of_text(make_text_sequence({"", "", {}, {}}, encoding_of({}))) == 0);
  tokenizer::Encoding typed = encoding_of({{0, 1}, {2, 7}});
  typed.special[2] = 1;  // a special token that is part of the text
  CHECK(last_of_text(make_text_sequence({"", "a [SEP]", {}, {}}, typed)) == 2);
  Sequence ids;
  ids.ids = {0, 2, 1};
  ids.special = {1, 0, 1};
  CHECK(last_of_text(ids) == 2);
}

TEST_CASE("truncation cuts the end of a text, and the longer text of a pair first") {
  // Tokens that the reference keeps with max_length and "longest_first": first text, second text.
  struct Row {
    std::size_t first, second, most, kept_first, kept_second;
  };
  for (const Row& row : {Row{5, 0, 7, 5, 0}, Row{5, 0, 4, 2, 0}, Row{5, 0, 3, 1, 0}, Row{3, 8, 10, 3, 4},
                         Row{8, 3, 10, 4, 3}, Row{5, 8, 10, 3, 4}, Row{8, 5, 10, 4, 3}, Row{5, 5, 10, 3, 4},
                         Row{5, 5, 9, 3, 3}, Row{1, 9, 4, 0, 1}}) {
    CAPTURE(row.first);
    CAPTURE(row.second);
    CAPTURE(row.most);
    const std::vector<tokenizer::TextRange> first(row.first, {0, 1});
    const std::vector<tokenizer::TextRange> second(row.second, {0, 1});
    const tokenizer::Encoding whole = encoding_of(first, row.second > 0 ? &second : nullptr);
    tokenizer::Encoding cut = whole;
    const std::size_t lost = truncate(cut, row.most);
    CHECK(lost == whole.size() - cut.size());
    std::vector<std::int64_t> want = {0};
    for (std::size_t i = 0; i < row.kept_first; ++i) want.push_back(static_cast<std::int64_t>(1 + i));
    want.push_back(static_cast<std::int64_t>(1 + row.first));
    for (std::size_t i = 0; i < row.kept_second; ++i)
      want.push_back(static_cast<std::int64_t>(2 + row.first + i));
    if (row.second > 0) want.push_back(static_cast<std::int64_t>(2 + row.first + row.second));
    CHECK(cut.ids == want);
    CHECK(cut.offsets.size() == want.size());
    CHECK(cut.special.size() == want.size());
    CHECK(cut.sequence.size() == want.size());
  }
  tokenizer::Encoding small = encoding_of({{0, 1}, {1, 2}});
  check_refusal([&] { truncate(small, 2); }, Status::bad_input,
                {"--truncate: ", "2 special tokens", "at least 3"});
}

TEST_CASE("find_word: ##1 is a token of the vocabulary, ##2 the second #") {
  const tokenizer::Vocabulary vocabulary({"#", "cat", "##1"}, {});
  Batch batch;
  batch.sequences.emplace_back().ids = {0, 1, 2, 0};
  finish_batch(batch, vocabulary);
  CHECK(find_word(batch.sequences[0], vocabulary, "##1") == std::vector<std::size_t>{2});
  CHECK(find_word(batch.sequences[0], vocabulary, "##2") == std::vector<std::size_t>{3});
}

TEST_CASE("find_word finds words of a text with and without punctuation") {
  //                         0123456789012345678901234567890123
  const std::string text = "It was tired. «it» mother-in-law It";
  const std::vector<tokenizer::TextRange> tokens = {{0, 2},   {3, 6},   {7, 10},  {10, 12},
                                                    {12, 13}, {14, 15}, {15, 17}, {17, 18},
                                                    {19, 25}, {25, 28}, {28, 32}, {33, 35}};
  const Sequence sequence = make_text_sequence({"", text, {}, {}}, encoding_of(tokens));
  const tokenizer::Vocabulary vocabulary;
  struct Row {
    std::string word;
    std::vector<std::size_t> want;
  };
  for (const Row& row : {
           Row{"It", {1}},
           Row{"It#2", {12}},
           Row{"it", {7}},
           Row{"it#2", {}},
           Row{"IT#3", {12}},
           Row{"iT#2", {7}},
           Row{"tired", {3, 4}},
           Row{"tired.", {3, 4, 5}},
           Row{"TIRED", {3, 4}},
           Row{"«it»", {6, 7, 8}},
           Row{"mother", {9}},
           Row{"law", {11}},
           Row{"in", {10}},
           Row{"mother-in-law", {9, 10, 11}},
           Row{"5", {5}},
           Row{"moth", {}},
       }) {
    CAPTURE(row.word);
    CHECK(find_word(sequence, vocabulary, row.word) == row.want);
  }
}

TEST_CASE("find_in_text finds the tokens of a part of a text") {
  const std::vector<tokenizer::TextRange> tokens = {{0, 1}, {1, 3}, {3, 4}, {3, 4}};
  const Sequence sequence = make_text_sequence({"", "我喜欢猫", {}, {}}, encoding_of(tokens));
  CHECK(find_in_text(sequence, "猫").positions == std::vector<std::size_t>{3, 4});
  CHECK(find_in_text(sequence, "猫").exact);
  CHECK(find_in_text(sequence, "喜").positions == std::vector<std::size_t>{2});
  CHECK_FALSE(find_in_text(sequence, "喜").exact);
  CHECK(find_in_text(sequence, "狗").positions.empty());
  const std::vector<tokenizer::TextRange> second = {{0, 1}, {1, 2}};
  const Sequence pair = make_text_sequence({"", "ab", "bc", {}}, encoding_of({{0, 1}, {1, 2}}, &second));
  CHECK(find_in_text(pair, "b").positions == std::vector<std::size_t>{2});
  CHECK(find_in_text(pair, "c").positions == std::vector<std::size_t>{5});
  CHECK(find_in_text(sequence, "").positions.empty());
}

TEST_CASE("punctuation of every script separates the parts of words, other symbols do not") {
  //                         0123 456789 0 1
  const std::string text = "你好，世界。a¿b × 3€ 👍！";
  const std::vector<tokenizer::TextRange> tokens = {{0, 2}, {2, 3},   {3, 5},   {5, 6},   {6, 7},  {7, 8},
                                                    {8, 9}, {10, 11}, {12, 14}, {15, 16}, {16, 17}};
  const Sequence sequence = make_text_sequence({"", text, {}, {}}, encoding_of(tokens));
  struct Row {
    std::string word;
    std::vector<std::size_t> want;
  };
  for (const Row& row : {
           Row{"你好", {1}},
           Row{"世界", {3}},
           Row{"你好，世界", {}},
           Row{"b", {7}},
           Row{"×", {8}},
           Row{"3€", {9}},
           Row{"👍", {10}},
           Row{"👍！", {10, 11}},
       }) {
    CAPTURE(row.word);
    CHECK(find_word(sequence, {}, row.word) == row.want);
  }
}

TEST_CASE("unknown tokens are counted, also the byte tokens of non-ASCII characters") {
  const tokenizer::Vocabulary vocabulary({"<unk>", "[UNK]", "a", "<0x0A>", "<0xE8>", "<0xZZ>"}, {});
  TextChecks checks;
  TextChecks more;
  more.add("", encoding_of({{0, 1}, {1, 2}, {2, 3}}), vocabulary);  // ids 1 to 3, and 0 and 4 around them
  checks.add(more);
  checks.add("1\ta", encoding_of({{0, 1}}), vocabulary);  // id 1, and 0 and 2 around it
  CHECK(checks.tokens == 4);
  CHECK(checks.unknown == 5);
  CHECK(checks.conllu == 0);
  CHECK_FALSE(vocabulary.is_unknown(-1));
  CHECK_FALSE(vocabulary.is_unknown(5));
  CHECK_FALSE(vocabulary.is_unknown(6));
  Warnings warnings;
  checks.warn(warnings);
  REQUIRE(warnings.list().size() == 1);
  CHECK(warnings.list()[0].code == "many_unknown");
}

TEST_CASE("the position in a .json file is in proportion to the items that were read") {
  const test::TempDir folder;
  const tokenizer::Vocabulary vocabulary = small_vocabulary();
  const std::string text = R"([{"ids": [2]}, {"ids": [3, 4]}, {"ids": [5]}, {"ids": [2]}])";
  for (const auto& path : {folder.write("a.json", text), folder.write("b.json.gz", test::gzip(text))}) {
    CAPTURE(path.string());
    TextEncoder encoder({}, "model.npz");
    SentenceStream stream(path, InputFormat::json, encoder, vocabulary);
    const std::uint64_t bytes = std::filesystem::file_size(path);
    CHECK(stream.position() == 0);
    for (std::size_t item = 1; item <= 4; ++item) {
      REQUIRE(stream.next().has_value());
      CHECK(stream.position() == bytes * item / 4);
    }
    CHECK_FALSE(stream.next().has_value());
    CHECK(stream.position() == bytes);
  }
}

TEST_CASE("find_word finds words of a treebank by form, also those that share tokens") {
  const std::vector<TextWord> words = {{"de", {0, 2}}, {"le", {0, 2}}, {"vin", {3, 6}}};
  const Sequence sequence = make_text_sequence({"", "du vin", {}, words}, encoding_of({{0, 2}, {3, 6}}));
  CHECK(find_word(sequence, {}, "de") == std::vector<std::size_t>{1});
  CHECK(find_word(sequence, {}, "le") == std::vector<std::size_t>{1});
  CHECK(find_word(sequence, {}, "vin") == std::vector<std::size_t>{2});
  // The words of "au" are "à" and "le". Their forms are not as long as "au", so a part has all tokens.
  const std::vector<TextWord> others = {{"(à)", {0, 2}}, {"le", {0, 2}}};
  const Sequence au = make_text_sequence({"", "au", {}, others}, encoding_of({{0, 1}, {1, 2}}));
  CHECK(find_word(au, {}, "à") == std::vector<std::size_t>{1, 2});
}

}  // namespace
}  // namespace attnctl::test
