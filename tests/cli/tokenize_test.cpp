// `attnctl tokenize`: compares ids, tokens, offsets and words with the output of the Python library
// `tokenizers` 0.23.3 for the same files.
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "support/bytes.hpp"
#include "support/command_refusal.hpp"
#include "support/console.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/sanitized.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;

const std::string kBert = "data/tiny-bert";
const std::string kLlama = "data/tiny-llama";
const std::string kSentence = "The animal didn't cross the street because it was too tired.";

json tokenize(std::vector<std::string> arguments, const RunOptions& options = {}) {
  arguments.insert(arguments.begin(), "tokenize");
  arguments.insert(arguments.end(), {"--format", "json"});
  const RunResult result = run_attnctl(arguments, options);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  json document = json::parse(result.out);
  const json schema = json::parse(cli::schema_text("tokens"));
  const std::vector<std::string> breaches = schema_breaches(schema, document);
  CHECK_MESSAGE(breaches.empty(), (breaches.empty() ? "" : breaches.front()));
  return document;
}

/// Returns the texts of a document, in order.
std::vector<std::string> texts_of(const json& document) {
  std::vector<std::string> texts;
  for (const json& input : document.at("inputs")) texts.push_back(input.at("text"));
  return texts;
}

std::vector<std::string> ids_of(const json& document) {
  std::vector<std::string> ids;
  for (const json& input : document.at("inputs")) ids.push_back(input.at("id"));
  return ids;
}

TEST_CASE("tokenize equals the reference, with offsets and words") {
  struct Row {
    std::string model, text, ids, tokens, offsets, words;
  };
  for (
      const Row& row : {
          Row{kBert, kSentence, "[2,133,521,664,9,58,582,133,604,467,224,240,603,673,16,3]",
              R"(["[CLS]","the","animal","didn","'","t","cross","the","street","because","it","was","too","tired",".","[SEP]"])",
              "[[0,0],[0,3],[4,10],[11,15],[15,16],[16,17],[18,23],[24,27],[28,34],[35,42],[43,45],[46,49],["
              "50,53],"
              "[54,59],[59,60],[0,0]]",
              "[null,0,1,2,3,4,5,6,7,8,9,10,11,12,13,null]"},
          Row{kBert, "Déjà  vu 🙂!", "[2,235,111,102,60,122,1,5,3]",
              R"(["[CLS]","de","##j","##a","v","##u","[UNK]","!","[SEP]"])",
              "[[0,0],[0,2],[2,3],[3,4],[6,7],[7,8],[9,10],[10,11],[0,0]]", "[null,0,0,0,1,1,2,3,null]"},
          Row{kBert, "", "[2,3]", R"(["[CLS]","[SEP]"])", "[[0,0],[0,0]]", "[null,null]"},
          Row{kLlama, "Déjà  vu 🙂!", "[0,37,129,104,75,129,256,222,380,86,222,174,255,249,226,2]",
              R"(["<s>","D","Ã","©","j","Ã","ł","Ġ","Ġv","u","Ġ","ð","Ł","Ļ","Ĥ","!"])",
              "[[0,0],[0,1],[1,2],[1,2],[2,3],[3,4],[3,4],[4,5],[5,7],[7,8],[8,9],[9,10],[9,10],[9,10],[9,10]"
              ",[10,11]]",
              "[null,0,0,0,0,0,0,1,2,2,3,3,3,3,3,3]"},
          Row{kLlama, " \t", "[0,222,199]", R"(["<s>","Ġ","ĉ"])", "[[0,0],[0,1],[1,2]]", "[null,0,0]"},
      }) {
    CAPTURE(row.text);
    const json input = tokenize({row.model, "--text", row.text}).at("inputs").at(0);
    CHECK(input.at("id") == "0");
    CHECK(input.at("text") == row.text);
    CHECK(input.at("ids") == json::parse(row.ids));
    CHECK(input.at("tokens") == json::parse(row.tokens));
    CHECK(input.at("offsets") == json::parse(row.offsets));
    CHECK(input.at("words") == json::parse(row.words));
    CHECK_FALSE(input.contains("sequence_ids"));
  }
}

TEST_CASE("a pair marks the text of each token") {
  const json input = tokenize({kBert, "--text", "Once", "--text-pair", "again"}).at("inputs").at(0);
  CHECK(input.at("text_pair") == "again");
  CHECK(input.at("ids") == json::parse("[2,201,202,3,504,3]"));
  CHECK(input.at("token_type_ids") == json::parse("[0,0,0,0,1,1]"));
  CHECK(input.at("sequence_ids") == json::parse("[null,0,0,null,1,null]"));
  CHECK(input.at("offsets").at(4) == json::parse("[0,5]"));
  CHECK(input.at("words") == json::parse("[null,0,0,null,0,null]"));
}

TEST_CASE("text is used unchanged") {
  for (const std::string text : {"[MASK]", "[a, b]", "--ids", "a,b", "'", "\"", "%s", "{}", "\\n", " "}) {
    CAPTURE(text);
    CHECK(texts_of(tokenize({kLlama, "--text=" + text})).front() == text);
    if (!text.starts_with('-')) CHECK(texts_of(tokenize({kLlama, text})).front() == text);
    CHECK(texts_of(tokenize({kLlama, "--text", "-"}, {.input = text + "\n"})).front() == text);
  }
}

TEST_CASE("texts after MODEL are inputs, in order with --text") {
  const std::string sentence(300, 'a');  // longer than a file name may be
  const json document = tokenize({kLlama, "one", "--text", "two", "[a, b]", "-", "info", sentence},
                                 {.input = "\nthree\nlines\r\n"});
  CHECK(texts_of(document) ==
        std::vector<std::string>{"one", "two", "[a, b]", "\nthree\nlines", "info", sentence});
  const RunResult dash = run_attnctl({"tokenize", kLlama, "--format", "json", "--", "--text"});
  REQUIRE_MESSAGE(dash.status == 0, dash.err);
  CHECK(texts_of(json::parse(dash.out)) == std::vector<std::string>{"--text"});
  const json pair = tokenize({kBert, "Once", "--text-pair", "again"}).at("inputs");
  CHECK(pair == tokenize({kBert, "--text", "Once", "--text-pair", "again"}).at("inputs"));
  check_command_refuses(
      {"tokenize", kBert, "data/sentences.txt"},
      {.status = Status::usage,
       .parts = {"data/sentences.txt: is a file, not a text", "--input data/sentences.txt"}});
  check_command_refuses({"tokenize", kBert, kLlama},
                        {.status = Status::usage, .parts = {"use attnctl compare MODEL " + kLlama}});
  for (const std::string option : {"--input", "--text"}) {
    check_command_refuses({"tokenize", kBert, "--text", "-", option, "-"},
                          {.status = Status::usage, .parts = {"standard input can be read only once"}});
  }
  check_command_refuses(
      {"tokenize", kBert, "--text", "-"},
      {.parts = {"standard input: line 1: got 0xff as byte 2 of the line"}, .run = {.input = "a\xff"}});
  CHECK(run_attnctl({"tokenize", "--help"}).out.find("MODEL [TEXT...]") != std::string::npos);
}

TEST_CASE("inputs of every kind keep their order and their ids") {
  const TempDir folder;
  const std::string lines = folder.write("a.txt", "one\r\n\n  \ntwo").string();
  const std::string objects =
      folder
          .write("b.jsonl",
                 "{\"text\": \"three\", \"id\": \"x\"}\n{\"text\": \"four\", \"text_pair\": \"4\"}\n")
          .string();
  const std::string list = folder.write("c.json", R"([{"text": "five"}, {"text": "", "id": 77}])").string();
  const std::string treebank =
      folder
          .write("d.conllu",
                 "# sent_id = s\n# text = six.\n1\tsix\t_\t_\t_\t_\t0\troot\t_\tSpaceAfter=No\n"
                 "2\t.\t_\t_\t_\t_\t1\tpunct\t_\t_\n\n1\tseven\t_\t_\t_\t_\t_\t_\t_\t_\n")
          .string();
  const json document = tokenize(
      {kBert, "--input", lines, "--text", "zero", "--input", objects, "--input", list, "--input", treebank});
  CHECK(texts_of(document) ==
        std::vector<std::string>{"one", "two", "zero", "three", "four", "five", "", "six.", "seven"});
  CHECK(ids_of(document) == std::vector<std::string>{"0", "1", "2", "x", "4", "5", "77", "s", "8"});
  REQUIRE(document.at("warnings").size() == 1);
  CHECK(document.at("warnings").at(0).at("code") == "blank_lines");
  CHECK(document.at("warnings").at(0).at("count") == 2);
}

TEST_CASE("unknown tokens of all inputs are counted, with any number of threads") {
  const TempDir folder;
  std::string lines;
  for (int i = 0; i < 20'000; ++i) lines += "the cat \u8FD9\n";
  const std::string input = folder.write("a.txt", lines).string();
  for (const char* threads : {"1", "4"}) {
    const json warnings =
        tokenize({kBert, "--input", input, "--text", "\u8FD9", "--threads", threads}).at("warnings");
    REQUIRE(warnings.size() == 1);
    CHECK(warnings.at(0).at("code") == "many_unknown");
    CHECK(warnings.at(0).at("message").get<std::string>().starts_with("20001 of 60001 tokens are unknown"));
  }
  CHECK(tokenize({kLlama, "--text", "a caf\u00E9 in the old town by the river"}).at("warnings").empty());
  const json bytes = tokenize({kLlama, "--text", "\u8FD9"}).at("warnings");  // one token per byte
  REQUIRE(bytes.size() == 1);
  CHECK(bytes.at(0).at("code") == "many_unknown");
}

TEST_CASE("- reads standard input, in the format of its first line or of --input-format") {
  for (const auto& [name, text] :
       {std::pair("txt", "a b\n"), std::pair("jsonl", "{\"text\": \"a b\"}"),
        std::pair("json", "{\n\"text\": \"a b\"}"), std::pair("json", "[{\"text\": \"a b\"}]"),
        std::pair("conllu",
                  "# text = a b\n1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n"
                  "2\tb\t_\t_\t_\t_\t1\tx\t_\t_\n")}) {
    const std::string format = name;  // Clang 14 cannot capture structured bindings
    CAPTURE(format);
    const json document = tokenize({kBert, "--input", "-", "--input-format", format}, {.input = text});
    CHECK(texts_of(document) == std::vector<std::string>{"a b"});
    CHECK(tokenize({kBert, "--input", "-"}, {.input = text}) == document);
  }
  const json chosen = tokenize({kBert, "--input", "-", "--input-format", "txt"}, {.input = "[1] b\n{}\n"});
  CHECK(texts_of(chosen) == std::vector<std::string>{"[1] b", "{}"});
  const std::string first(70'000, 'a');  // longer than the part of standard input that is read in advance
  CHECK(texts_of(tokenize({kBert, "--input", "-"}, {.input = first + "\nb\n"})) ==
        std::vector<std::string>{first, "b"});
  check_command_refuses({"tokenize", kBert, "--input", "-"},
                        {.parts = {"standard input: contains no inputs"}});
}

TEST_CASE("--input-format also applies to files") {
  const TempDir folder;
  const std::string file = folder.write("a.list", "{\"text\": \"a b\"}").string();
  CHECK(texts_of(tokenize({kBert, "--input", file, "--input-format", "jsonl"})) ==
        std::vector<std::string>{"a b"});
  check_command_refuses({"tokenize", kBert, "--input", file}, {.parts = {"--input-format"}});
}

TEST_CASE("the output of a corpus does not depend on threads, and memory does not grow") {
  const TempDir folder;
  std::string text;
  for (int i = 0; i < 60'000; ++i)
    text += "Line " + std::to_string(i) + " of a corpus, with words enough to see.\n";
  const std::string corpus = folder.write("corpus.txt", text).string();
  std::vector<std::string> outputs;
  for (const char* threads : {"1", "3"}) {
    const RunResult result =
        run_attnctl({"tokenize", kBert, "--input", corpus, "--threads", threads, "--format", "jsonl", "-o",
                     (folder.path() / threads).string() + ".jsonl"});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    if (!kSanitized) CHECK(result.peak_bytes < (std::size_t{120} << 20U));
    std::string output = slurp(folder.path() / (std::string(threads) + ".jsonl"));
    output.erase(0, output.find('\n'));  // the head contains the number of threads
    outputs.push_back(std::move(output));
  }
  CHECK(outputs[0] == outputs[1]);
  CHECK(outputs[0].size() > 15'000'000);
  std::istringstream lines(outputs[1]);
  std::string line;
  std::getline(lines, line);
  for (int i = 0; i < 60'000; ++i) {
    std::getline(lines, line);
    if (line.find("\"text\": \"Line " + std::to_string(i) + " of") != std::string::npos) continue;
    FAIL_CHECK("line ", i, " is ", line.substr(0, 100));
    break;
  }
}

TEST_CASE("jsonl, csv and text show the same as json") {
  const TempDir folder;
  const std::vector<std::string> command = {"tokenize", kBert, "--text", "Once, again", "--text", ""};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), command.begin(), command.end());
    const RunResult result = run_attnctl(more);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return result.out;
  };
  const json document = json::parse(run({"--format", "json"}));
  std::istringstream lines(run({"--format", "jsonl"}));
  std::vector<json> records;
  for (std::string line; std::getline(lines, line);) records.push_back(json::parse(line));
  REQUIRE(records.size() == 3);
  CHECK(records[0].at("schema") == "attnctl.tokens/2");
  CHECK(records[1].at("record") == "input");
  records[1].erase("record");
  CHECK(records[1] == document.at("inputs").at(0));

  const std::string csv =
      "input,position,token,id,begin,end,word,sequence_id,token_type_id\r\n"
      "0,0,[CLS],2,0,0,,,0\r\n0,1,on,201,0,2,0,0,0\r\n0,2,##ce,202,2,4,0,0,0\r\n"
      "0,3,\",\",14,4,5,1,0,0\r\n0,4,again,504,6,11,2,0,0\r\n0,5,[SEP],3,0,0,,,0\r\n"
      "1,0,[CLS],2,0,0,,,0\r\n1,1,[SEP],3,0,0,,,0\r\n";
  CHECK(run({"--format", "csv", "--table", "tokens"}) == csv);
  run({"--format", "csv", "-o", (folder.path() / "tables").string()});
  CHECK(slurp(folder.path() / "tables" / "tokens.csv") == csv);

  const std::string text = run({"--format", "text"});
  CHECK(text.find("input \"0\": Once, again\n") != std::string::npos);
  CHECK(text.find("       2  ##ce   202      2    4     0  ce\n") != std::string::npos);
}

TEST_CASE("tokenize needs no weights and no configuration") {
  const TempDir folder;
  folder.write("model/tokenizer.json", slurp(kBert + "/tokenizer.json"));
  const json document = tokenize({(folder.path() / "model").string(), "--text", "Once"});
  CHECK(document.at("inputs").at(0).at("ids") == json::parse("[2,201,202,3]"));
  CHECK(document.at("tokenizer").at("truncation").is_null());
  CHECK(tokenize({(folder.path() / "model/tokenizer.json").string(), "--text", "Once"}).at("inputs") ==
        document.at("inputs"));
}

TEST_CASE("a name of the local Hugging Face cache is found") {
  const TempDir folder;
  folder.write("models--org--tiny/refs/main", "abc");
  folder.write("models--org--tiny/snapshots/abc/tokenizer.json", slurp(kBert + "/tokenizer.json"));
  const json document =
      tokenize({"org/tiny", "--text", "Once"}, {.environment = {{"HF_HUB_CACHE", folder.path().string()}}});
  CHECK(document.at("inputs").at(0).at("ids") == json::parse("[2,201,202,3]"));
}

TEST_CASE("a bad input among the first leaves nothing in a pipe") {
  for (const char* format : {"json", "jsonl", "text"}) {
    const RunResult result =
        run_attnctl({"tokenize", kBert, "--input", "-", "--input-format", "txt", "--format", format},
                    {.input = "good\nbad \xff\n"});
    CHECK(result.status == 3);
    CHECK(result.out.empty());
  }
}

TEST_CASE("truncation and padding of a tokenizer's file are shown but not applied") {
  const TempDir folder;
  json file = json::parse(slurp(kBert + "/tokenizer.json"));
  file["truncation"] = {
      {"max_length", 4}, {"strategy", "LongestFirst"}, {"stride", 0}, {"direction", "Right"}};
  file["padding"] = {{"strategy", {{"Fixed", 64}}},
                     {"direction", "Right"},
                     {"pad_to_multiple_of", nullptr},
                     {"pad_id", 0},
                     {"pad_type_id", 0},
                     {"pad_token", "[PAD]"}};
  folder.write("tokenizer.json", file.dump());
  const json document = tokenize({folder.path().string(), "--text", kSentence});
  CHECK(document.at("inputs").at(0).at("ids").size() == 16);
  CHECK(document.at("tokenizer").at("truncation") == file["truncation"]);
  CHECK(document.at("tokenizer").at("padding") == file["padding"]);
  const std::string page = run_attnctl({"tokenize", folder.path().string(), "the", "--format", "text"},
                                       {.environment = {{"COLUMNS", "80"}}})
                               .out;
  for (const std::string& line : lines_of(page)) CHECK_MESSAGE(line.size() <= 80, line);
  CHECK(page.find("\ntruncation of the tokenizer file is not applied: direction \"Right\", max_length") !=
        std::string::npos);
  CHECK(page.find("\npadding of the tokenizer file is not applied: direction \"Right\", pad_id 0,") !=
        std::string::npos);
}

TEST_CASE("the progress of tokenize counts texts or the bytes of the file") {
  const TempDir folder;
  const std::string texts = json::array({{{"text", "the cat"}}, {{"text", "the dog"}}}).dump();
  const std::string lines = gzip("the cat\nthe dog\n");
  const auto shown = [&](const std::string& name, const std::string& bytes) {
    return run_attnctl({"tokenize", kBert, "--input", folder.write(name, bytes).string(), "--progress",
                        "always", "--format", "json"})
        .err;
  };
  CHECK(shown("a.json", texts).find("  0 %  0/2 texts") != std::string::npos);
  CHECK(shown("a.txt.gz", lines).find("  0 %  0/" + std::to_string(lines.size()) + " bytes") !=
        std::string::npos);
}

TEST_CASE("tokenize rejects bad inputs with one line and a status, and leaves the output unchanged") {
  const TempDir folder;
  const auto file = [&](const std::string& name, const std::string& bytes) {
    return folder.write(name, bytes).string();
  };
  check_command_refuses({"tokenize", kBert, "--text", "a\xff"},
                        {.parts = {"--text: line 1: got 0xff as byte 2 of the line"}});
  check_command_refuses({"tokenize", kBert, "--text", "a", "--text-pair", "\xc0\xaf"},
                        {.parts = {"--text-pair: line 1: got 0xc0 as byte 1 of the line"}});
  check_command_refuses({"tokenize", kBert, "--input", file("a.txt", "fine\nfine\nbad\xe9\n")},
                        {.parts = {"a.txt: line 3: got 0xe9 as byte 4 of the line"}});
  check_command_refuses({"tokenize", kBert, "--input", file("b.txt", "\n\n")},
                        {.parts = {"b.txt: contains no inputs"}});
  check_command_refuses({"tokenize", kBert, "--input", file("c.txt", "")},
                        {.parts = {"c.txt: contains no inputs"}});
  check_command_refuses({"tokenize", kBert, "--input", file("c.json", "[]")},
                        {.parts = {"c.json: contains no inputs"}});
  check_command_refuses({"tokenize", kBert, "--input", file("d.jsonl", "{\"ids\": [1]}")},
                        {.parts = {"d.jsonl: line 1: /text: is missing"}});
  check_command_refuses({"tokenize", kBert, "--input",
                         file("e.jsonl", "{\"text\": \"\", \"id\": \"a\"}\n{\"text\": \"\", \"id\": \"a\"}")},
                        {.parts = {"the id \"a\" occurs twice"}});
  check_command_refuses({"tokenize", kBert, "--input", file("f.pdf", "%PDF")},
                        {.parts = {"unsupported extension \".pdf\""}});
  check_command_refuses({"tokenize", kBert, "--input", "no-such.txt"}, {.status = Status::environment});
  check_command_refuses({"tokenize", "no/such/model", "--text", "a"}, {.status = Status::environment});
  check_command_refuses({"tokenize", folder.path().string(), "--text", "a"},
                        {.parts = {"no tokenizer", "tokenizer.json"}});
  check_command_refuses({"tokenize", kBert}, {.status = Status::usage, .parts = {"no input"}});
  check_command_refuses({"tokenize", kBert, "--text-pair", "a"}, {.status = Status::usage});
  check_command_refuses({"tokenize", kBert, "--text", "a", "--text-pair", "b", "--text-pair", "c"},
                        {.status = Status::usage});
  check_command_refuses({"tokenize", kBert, "--text", "a", "--input", file("g.txt", "x"), "--text-pair", "b"},
                        {.status = Status::usage});
  check_command_refuses(
      {"tokenize", kBert, "--text", "a", "--format", "csv", "--table", "heads", "-o", "x.csv"},
      {.status = Status::usage, .parts = {"the only table of this command is tokens"}});
  check_command_refuses({"tokenize", kBert, "--text", "a", "--format", "npz"}, {.status = Status::usage});
}

TEST_CASE("texts are read with the tokenizer of a GGUF file") {
  const std::string model = "tests/golden/gguf/tokenizers/llama-text.gguf";
  const json golden = json::parse(slurp(ATTNCTL_SOURCE_DIR "/tests/golden/sentencepiece/golden.json"));
  const std::string text = golden["texts"].back();
  const json document = tokenize({model, "--text", text});
  const json ids = golden["bpe-bytes"].back();
  CHECK(document["inputs"][0]["ids"] == ids);
  std::string list;
  for (const auto& id : ids) list += (list.empty() ? "" : ",") + id.dump();
  const auto analyze = [&](const std::vector<std::string>& input) {
    std::vector<std::string> arguments{"analyze", model, "--include", "patterns", "--format", "json"};
    arguments.insert(arguments.end(), input.begin(), input.end());
    const RunResult result = run_attnctl(arguments);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return json::parse(result.out);
  };
  const json by_text = analyze({"--text", text});
  CHECK(by_text["inputs"][0]["ids"] == ids);
  CHECK(by_text["inputs"][0]["tokens"] == document["inputs"][0]["tokens"]);
  CHECK(by_text["patterns"] == analyze({"--ids", list})["patterns"]);
}

}  // namespace
}  // namespace attnctl::test
