// Text inputs of `analyze` and `verify`: the model's own tokenizer, words, truncation.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/files/input_file.hpp"
#include "cli/commands.hpp"
#include "support/bytes.hpp"
#include "support/command_refusal.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;

const std::string kBert = "data/tiny-bert";
const std::string kSentence = "The animal didn't cross the street because it was too tired.";

json analyze(std::vector<std::string> arguments, const RunOptions& options = {}) {
  arguments.insert(arguments.begin(), "analyze");
  arguments.insert(arguments.end(), {"--format", "json"});
  const RunResult result = run_attnctl(arguments, options);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  json document = json::parse(result.out);
  const std::vector<std::string> breaches =
      schema_breaches(json::parse(cli::schema_text("analysis")), document);
  CHECK_MESSAGE(breaches.empty(), (breaches.empty() ? "" : breaches.front()));
  return document;
}

TEST_CASE("a text gives the results of its ids, with words and offsets") {
  const json text = analyze({kBert, "--text", kSentence, "--from", "it", "--to", "animal,tired.,didn't"});
  const json tokens = analyze({kBert, "--ids", "2,133,521,664,9,58,582,133,604,467,224,240,603,673,16,3"});
  const json& input = text.at("inputs").at(0);
  CHECK(input.at("text") == kSentence);
  CHECK(input.at("tokens") == tokens.at("inputs").at(0).at("tokens"));
  CHECK(input.at("ids") == tokens.at("inputs").at(0).at("ids"));
  CHECK(text.at("patterns") == tokens.at("patterns"));
  CHECK(input.at("offsets").at(4) == json::parse("[15,16]"));
  CHECK(input.at("words") == json::parse("[null,0,1,2,2,2,3,4,5,6,7,8,9,10,10,null]"));
  CHECK_FALSE(tokens.at("inputs").at(0).contains("words"));
  const json& answer = text.at("attention_from").at(0);
  CHECK(answer.at("query") == 10);
  CHECK(answer.at("query_token") == "it");
  // The weight of a word is the sum over its tokens: 3 to 5 for "didn't", 13 and 14 for "tired.".
  const json& row = text.at("patterns").at(0).at("weight").at(10);
  const auto sum = [&](std::size_t first, std::size_t last) {
    double all = 0;
    for (std::size_t key = first; key <= last; ++key) all += row.at(key).get<double>();
    return all;
  };
  CHECK(answer.at("to").at(0).at("weight").get<double>() == doctest::Approx(sum(2, 2)).epsilon(1e-6));
  CHECK(answer.at("to").at(1).at("weight").get<double>() == doctest::Approx(sum(13, 14)).epsilon(1e-6));
  CHECK(answer.at("to").at(2).at("weight").get<double>() == doctest::Approx(sum(3, 5)).epsilon(1e-6));
}

TEST_CASE("every kind of text input gives the same sequence, also together in one run") {
  const TempDir folder;
  const std::string line = folder.write("a.txt", kSentence + "\r\n\n").string();
  const std::string object = folder.write("b.jsonl", json{{"text", kSentence}, {"id", "b"}}.dump()).string();
  const std::string list = folder.write("c.json", json::array({{{"text", kSentence}}}).dump()).string();
  const std::string ids = folder.write("d.jsonl", R"({"ids": [2, 133, 3]})").string();
  const json document = analyze({kBert, "--input", line, "--text", kSentence, "--input", object, "--input",
                                 list, "--input", ids, "--include", "patterns"});
  REQUIRE(document.at("inputs").size() == 5);
  for (std::size_t i = 1; i < 4; ++i) {
    json input = document.at("inputs").at(i);
    input["id"] = "0";
    CHECK(input == document.at("inputs").at(0));
    const json& values = document.at("patterns").at(12 * i).at("weight");
    const json& first = document.at("patterns").at(0).at("weight");
    REQUIRE(values.size() == first.size());
    for (std::size_t r = 0; r < values.size(); ++r) {
      for (std::size_t c = 0; c < values[r].size(); ++c)
        CHECK(std::abs(values[r][c].get<double>() - first[r][c].get<double>()) < 1e-6);
    }
  }
  CHECK(document.at("inputs").at(2).at("id") == "b");
  CHECK(document.at("warnings").at(0).at("code") == "blank_lines");
}

TEST_CASE("a compressed file has the inputs of the file that was packed, .conll is read as .conllu") {
  const TempDir folder;
  const std::string treebank = slurp("data/treebank.conllu");
  const std::vector<std::pair<std::string, std::string>> files = {
      {"a.txt", kSentence + "\nThe cat sat.\n"},
      {"b.jsonl", json{{"text", kSentence}, {"id", "b"}}.dump()},
      {"c.json", json::array({{{"text", kSentence}}}).dump()},
      {"d.conllu", treebank}};
  const auto results = [&](const std::string& name, const std::string& bytes) {
    const std::string path = folder.write(name, bytes).string();
    const json document = analyze({kBert, "--input", path, "--include", "metrics"});
    const RunResult tokens =
        run_attnctl({"tokenize", kBert, "--input", path, "--format", "jsonl", "--quiet"});
    CHECK_MESSAGE(tokens.status == 0, tokens.err);
    return json{document.at("inputs"), document.at("heads"), tokens.out};
  };
  for (const auto& [file_name, text] : files) {
    const std::string name = file_name;
    CAPTURE(name);
    const json wanted = results(name, text);
    CHECK(results(name + ".gz", gzip(text)) == wanted);
    CHECK(results(name + ".zst", zstd(text)) == wanted);
  }
  CHECK(results("e.conll", treebank) == results("d.conllu", treebank));
  CHECK(results("E.TXT.GZ", gzip(files[0].second)) == results("a.txt", files[0].second));
  const std::string bare = folder.write("bare.gz", gzip(kSentence)).string();
  CHECK(analyze({kBert, "--input", bare, "--input-format", "txt"}).at("inputs").at(0).at("text") ==
        kSentence);
  const std::string file = gzip(treebank);
  const std::string frame = zstd(treebank);
  for (const char* command : {"analyze", "tokenize"}) {
    check_command_refuses(
        {command, kBert, "--input", folder.write("cut.conllu.gz", file.substr(0, file.size() / 2)).string()},
        {.parts = {"cut.conllu.gz: damaged"}});
    check_command_refuses(
        {command, kBert, "--input", folder.write("cut.txt.zst", frame.substr(0, 40)).string()},
        {.parts = {"cut.txt.zst: damaged"}});
    check_command_refuses({command, kBert, "--input", folder.write("empty.json.zst", "").string()},
                          {.parts = {"empty.json.zst: damaged"}});
    for (const char* name : {"cut.json.gz", "cut.txt.gz"})
      check_command_refuses({command, kBert, "--input", folder.write(name, file.substr(0, 40)).string()},
                            {.parts = {std::string(name) + ": damaged"}});
    check_command_refuses({command, kBert, "--input", folder.write("x.pdf.gz", file).string()},
                          {.parts = {"unsupported extension \".pdf\"", ".gz or .zst"}});
  }
  const RunResult both = run_attnctl({"tokenize", kBert, "--input", (folder.path() / "a.txt.gz").string(),
                                      "--input", (folder.path() / "c.json").string(), "--format", "json"});
  CHECK(json::parse(both.out).at("inputs").size() == 3);
}

TEST_CASE("a pattern of --input stands for the files that match it, sorted by name") {
  const TempDir folder;
  folder.write("b.txt", "Once\n");
  folder.write("a.txt", "The cat sat.\n");
  folder.write("c.json", R"({"text": "again"})");
  const std::string path = folder.path().string();
  const auto texts = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"tokenize", kBert, "--format", "json"});
    const RunResult result = run_attnctl(words);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    const json document = json::parse(result.out);
    std::vector<std::string> found;
    for (const json& input : document.at("inputs")) found.push_back(input.at("text"));
    return found;
  };
  using Texts = std::vector<std::string>;
  CHECK(texts({"--input", path + "/*.txt"}) == Texts{"The cat sat.", "Once"});
  CHECK(texts({"--text", "x", "--input", path + "/[bc].*", "--text", "y"}) ==
        Texts{"x", "Once", "again", "y"});
  folder.write("[bc].txt", "brackets\n");
  CHECK(texts({"--input", path + "/[bc].txt"}) == Texts{"brackets"});
  for (const char* command : {"analyze", "tokenize", "study"})
    check_command_refuses(
        {command, kBert, "--input", path + "/*.conllu"},
        {.status = Status::environment, .parts = {"/*.conllu: no file matches this pattern"}});
  // The files of a pattern are inputs, which an output must not replace.
  const RunResult result =
      run_attnctl({"tokenize", kBert, "--input", path + "/*.json", "-o", path + "/c.json"});
  CHECK(result.status == 2);
  CHECK_MESSAGE(result.err.find("c.json") != std::string::npos, result.err);
}

TEST_CASE("a treebank's words are those of the file") {
  const std::string row = "\t_\t_\t_\t_\t0\troot\t_\t";
  const std::string text = "# sent_id = s-1\n# text = The dogs can't.\n1\tThe" + row + "_\n2\tdogs" + row +
                           "_\n3-4\tcan't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n3\tca" + row + "_\n4\tn't" +
                           row + "_\n4.1\tgo\t_\t_\t_\t_\t_\t_\t_\t_\n5\t." + row + "_\n";
  const json document =
      analyze({kBert, "--input", "-", "--input-format", "conllu", "--include", "metrics", "--from", "n't"},
              {.input = text});
  const json& input = document.at("inputs").at(0);
  CHECK(input.at("id") == "s-1");
  CHECK(input.at("text") == "The dogs can't.");
  // The token "can" overlaps two words, "ca" and "n't".
  REQUIRE(input.at("tokens") == json::parse(R"(["[CLS]","the","dog","##s","can","'","t",".","[SEP]"])"));
  CHECK(input.at("words") == json::parse("[null,0,1,1,2,3,3,4,null]"));
  CHECK(document.at("attention_from").at(0).at("query") == 4);
}

TEST_CASE("a pair has token types where the model has them") {
  const json document = analyze({kBert, "--text", "Once", "--text-pair", "again", "--include", "patterns"});
  const json by_hand = analyze({kBert, "--input", "-", "--input-format", "json", "--include", "patterns"},
                               {.input = R"({"ids": [2,201,202,3,504,3], "token_type_ids": [0,0,0,0,1,1]})"});
  CHECK(document.at("inputs").at(0).at("sequence_ids") == json::parse("[null,0,0,null,1,null]"));
  CHECK(document.at("inputs").at(0).at("words") == json::parse("[null,0,0,null,1,null]"));
  CHECK(document.at("inputs").at(0).at("text_pair") == "again");
  CHECK(document.at("patterns") == by_hand.at("patterns"));
  CHECK(analyze({"data/tiny-llama", "--text", "Once", "--text-pair", "again"})
            .at("inputs")
            .at(0)
            .at("length") == 7);
}

TEST_CASE("an input that is too long is status 3, --truncate shortens it with a warning") {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the ";
  check_command_refuses({"analyze", kBert, "--text", text},
                        {.parts = {"202 tokens", "128 positions", "--truncate"}});
  std::string ids = "0";
  for (int i = 0; i < 199; ++i) ids += ",5";
  const json document =
      analyze({kBert, "--text", text, "--truncate", "--text", "short", "--ids", ids, "--include", "metrics"});
  CHECK(document.at("inputs").at(0).at("length") == 128);
  CHECK(document.at("inputs").at(0).at("truncated") == 74);
  CHECK(document.at("inputs").at(0).at("ids").back() == 3);  // truncation keeps [SEP]
  CHECK_FALSE(document.at("inputs").at(1).contains("truncated"));
  CHECK(document.at("inputs").at(2).at("truncated") == 72);
  const json& warning = document.at("warnings").at(0);
  CHECK(warning.at("code") == "truncated");
  CHECK(warning.at("count") == 2);
  CHECK(warning.at("message").get<std::string>().find("202 tokens cut to the model's 128 positions") !=
        std::string::npos);
}

TEST_CASE("an empty sequence is rejected by analyze, but not by tokenize") {
  const TempDir folder;
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(kBert + "/" + name, folder.path() / name);
  json file = json::parse(slurp(kBert + "/tokenizer.json"));
  file["post_processor"] = nullptr;
  folder.write("tokenizer.json", file.dump());
  check_command_refuses({"analyze", folder.path().string(), "--text", " "},
                        {.parts = {"input \"0\"", "empty sequence"}});
  const RunResult result =
      run_attnctl({"tokenize", folder.path().string(), "--text", " ", "--format", "json"});
  CHECK(result.status == 0);
  CHECK(json::parse(result.out).at("inputs").at(0).at("ids").empty());
}

TEST_CASE("text that is not UTF-8, and text without a tokenizer, are rejected") {
  const TempDir folder;
  check_command_refuses({"analyze", kBert, "--text", "caf\xe9"},
                        {.parts = {"--text: line 1: got 0xe9 as byte 4 of the line"}});
  check_command_refuses({"analyze", kBert, "--input", folder.write("x.txt", "fine\ncaf\xe9\n").string()},
                        {.parts = {"x.txt: line 2: got 0xe9 as byte 4 of the line"}});
  check_command_refuses({"analyze", "data/attention-demo.json", "--text", "The cat"},
                        {.parts = {"attention-demo.json: no tokenizer", "tokenizer.json, vocab.txt, ",
                                   "--ids 1,2,3, or --input FILE.jsonl with \"ids\" or \"tokens\""}});
  check_command_refuses({"analyze", kBert, "--input", folder.write("y.conllu", "1\ta\n").string()},
                        {.parts = {"y.conllu: line 1: got 2 columns"}});
}

TEST_CASE("a text may follow MODEL in every command that takes texts") {
  const std::vector<std::string> more = {"--from", "it", "--include", "metrics"};
  std::vector<std::string> after = {kBert, kSentence};
  std::vector<std::string> option = {kBert, "--text", kSentence};
  for (std::vector<std::string>* const words : {&after, &option})
    words->insert(words->end(), more.begin(), more.end());
  CHECK(analyze(after) == analyze(option));
  CHECK(analyze({kBert, "--text", "-", "--include", "metrics"}, {.input = kSentence + "\n"}).at("inputs") ==
        analyze({kBert, kSentence, "--include", "metrics"}).at("inputs"));
  const RunResult verified = run_attnctl({"verify", kBert, kSentence, "--format", "json"});
  REQUIRE_MESSAGE(verified.status == 0, verified.err);
  CHECK(json::parse(verified.out).at("inputs").at(0).at("length") == 16);
  const RunResult scaling =
      run_attnctl({"experiment", "scaling", "--model", kBert, kSentence, "--format", "json"});
  REQUIRE_MESSAGE(scaling.status == 0, scaling.err);
  CHECK(json::parse(scaling.out).at("parameters").at("tokens") == 16);
  const RunResult alone = run_attnctl({"experiment", "scaling", kSentence});
  CHECK(alone.status == 2);
  CHECK_MESSAGE(alone.err.find("TEXT requires --model") != std::string::npos, alone.err);
}

TEST_CASE("a warning says that CoNLL-U is read as text") {
  const TempDir folder;
  const std::string rows = "1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_\n2\tcat\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n";
  const std::string as_text = folder.write("a.txt", "# text = the cat\n" + rows + rows).string();
  const std::string treebank = folder.write("a.conllu", rows).string();
  const json document = analyze({kBert, "--input", as_text, "--include", "metrics"});
  const json& warnings = document.at("warnings");
  REQUIRE(warnings.size() == 2);
  CHECK(warnings.at(0).at("code") == "blank_lines");
  CHECK(warnings.at(1).at("code") == "conllu_as_text");
  CHECK(warnings.at(1).at("count") == 1);
  CHECK(
      warnings.at(1).at("message") ==
      "2 sentences look like CoNLL-U but are read as text; give --input-format conllu, or rename the file to "
      ".conllu");
  CHECK(analyze({kBert, "--input", treebank, "--include", "metrics"}).at("warnings").empty());
  for (const char* command : {"tokenize", "study"}) {
    CAPTURE(command);
    CHECK(run_attnctl({command, kBert, "--input", as_text}).err.find("--input-format conllu") !=
          std::string::npos);
    CHECK(run_attnctl({command, kBert, "--input", treebank}).err.find("--input-format") == std::string::npos);
  }
}

TEST_CASE("a warning says that more than 20 % of the tokens are unknown") {
  const auto warnings = [](const std::vector<std::string>& texts) {
    std::vector<std::string> words = {kBert, "--include", "metrics"};
    for (const std::string& text : texts) words.insert(words.end(), {"--text", text});
    return analyze(words).at("warnings");
  };
  const json found = warnings({"the cat", "\u8FD9 \u662F"});
  REQUIRE(found.size() == 1);
  CHECK(found.at(0).at("code") == "many_unknown");
  CHECK(found.at(0).at("count") == 1);
  CHECK(found.at(0).at("message").get<std::string>().starts_with("2 of 4 tokens are unknown"));
  const json one = warnings({"\u8FD9"});
  CHECK(one.at(0).at("message").get<std::string>().starts_with("1 of 1 token is unknown"));
  CHECK(warnings({"the cat sat on \u8FD9"}).empty());  // 1 of 5
  CHECK(warnings({"the cat on \u8FD9"}).size() == 1);  // 1 of 4
}

TEST_CASE("verify takes text") {
  const RunResult result = run_attnctl({"verify", kBert, "--text", kSentence, "--format", "json"});
  CHECK_MESSAGE(result.status == 0, result.err);
  CHECK(json::parse(result.out).at("inputs").at(0).at("length") == 16);
}

TEST_CASE("--from on trained models, if they are available") {
  // The ids are those of the Python library `tokenizers` with the tokenizer.json of the models.
  struct Row {
    const char* model;
    std::string text, from, to;
    std::size_t heads;
    std::string ids, words;
    std::size_t query, first_key, last_key;
  };
  for (const Row& row : {
           Row{"stories15M", "Once upon a time, there was a little girl named Lily. She loved to", "to",
               "Lily,girl,Once", 36,
               "[1,9038,2501,263,931,29892,727,471,263,2217,7826,4257,365,2354,29889,2296,18012,304]",
               "[null,0,1,2,3,3,4,5,6,7,8,9,10,10,10,11,12,13]", 17, 12, 13},
           Row{"all-MiniLM-L6-v2", kSentence, "it", "didn't,animal,because", 72,
               "[101,1996,4111,2134,1005,1056,2892,1996,2395,2138,2009,2001,2205,5458,1012,102]",
               "[null,0,1,2,2,2,3,4,5,6,7,8,9,10,10,null]", 10, 3, 5},
       }) {
    const std::filesystem::path model = std::filesystem::path(ATTNCTL_SHARED_DIR) / "models" / row.model;
    CAPTURE(row.model);
    if (!std::filesystem::exists(model / "tokenizer.json")) {
      MESSAGE("skipped: " << model.string() << " is not there");
      continue;
    }
    const json document = analyze({model.string(), "--text", row.text, "--from", row.from, "--to", row.to});
    const json& input = document.at("inputs").at(0);
    CHECK(input.at("ids") == json::parse(row.ids));
    CHECK(input.at("words") == json::parse(row.words));
    const json& answers = document.at("attention_from");
    REQUIRE(answers.size() == row.heads);
    for (std::size_t head = 0; head < row.heads; ++head) {
      CHECK(answers.at(head).at("query") == row.query);
      const json& weights = document.at("patterns").at(head).at("weight").at(row.query);
      double sum = 0;
      for (std::size_t key = row.first_key; key <= row.last_key; ++key) sum += weights.at(key).get<double>();
      CHECK(answers.at(head).at("to").at(0).at("weight").get<double>() == doctest::Approx(sum).epsilon(1e-6));
    }
    CHECK(answers.at(0).at("to").size() == 3);
  }
}

TEST_CASE("a forgotten MODEL, forgotten quotes and an empty text are named") {
  const RunResult forgotten = run_attnctl({"analyze", kSentence});
  CHECK(forgotten.status == 4);
  CHECK(forgotten.err == "attnctl: \"" + kSentence +
                             "\": no such file or model; the first argument is MODEL, and texts follow it\n");
  const RunResult like_option = run_attnctl({"analyze", "--", "--x"});
  CHECK(like_option.status == 4);
  CHECK_MESSAGE(like_option.err.find("the first argument is MODEL") != std::string::npos, like_option.err);
  const auto warnings = [](std::vector<std::string> texts) {
    texts.insert(texts.begin(), {"analyze", kBert});
    texts.insert(texts.end(), {"--include", "metrics", "--format", "json"});
    const RunResult result = run_attnctl(texts);
    CHECK_MESSAGE(result.status == 0, result.err);
    return result.err;
  };
  CHECK(warnings({"The", "cat", "sat."}).find("got 3 texts of one word each; put a longer text in quotes") !=
        std::string::npos);
  for (const std::vector<std::string>& texts :
       {std::vector<std::string>{"Once"}, {"The cat", "sat."}, {"\u7684", "\u732B"}})
    CHECK(warnings(texts).find("of one word") == std::string::npos);
  for (const char* empty : {"", " \n"})
    CHECK(warnings({"The cat", empty}) == "attnctl: warning: the text of input \"1\" is empty\n");
}

TEST_CASE("an argument that names a missing file of inputs is an error") {
  for (const char* name : {"nosuch.txt", "nosuch.JSONL", "no/such.conllu.gz"})
    check_command_refuses(
        {"analyze", kBert, name},
        {.status = Status::usage, .parts = {name, "no such file; give --input FILE, or --text"}});
  CHECK(run_attnctl({"tokenize", kBert, "--text", "nosuch.txt"}).status == 0);
  CHECK(run_attnctl({"tokenize", kBert, "See nosuch.txt"}).status == 0);
}

TEST_CASE("options that the format does not use give a warning on standard error") {
  const TempDir folder;
  const auto warning = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"analyze", kBert, kSentence, "--include", "metrics"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const RunResult result = run_attnctl(arguments);
    CHECK_MESSAGE(result.status == 0, result.err);
    return result.err;
  };
  const std::string npz = (folder.path() / "x.npz").string();
  CHECK(warning({"--from", "it", "-o", npz}) ==
        "attnctl: warning: --from: npz does not have the answer; use csv, json or text\n");
  const std::string columns = "attnctl: warning: --columns chooses columns only in text\n";
  for (const std::string format : {"json", "csv", "npz"})
    CHECK(warning({"--columns", "entropy", "--format", format, "-o", (folder.path() / format).string()}) ==
          columns);
  CHECK(read_file(folder.path() / "json", 1U << 20U).find("unused_columns") != std::string::npos);
  CHECK(run_attnctl({"tokenize", kBert, kSentence, "--columns", "all", "--format", "json"}).err == columns);
  CHECK(run_attnctl({"explain", "pairs", "--columns", "all", "--format", "csv"}).err == columns);
  CHECK(warning({"--columns", "entropy", "--format", "text"}).empty());
  CHECK(warning({"--sort", "entropy", "--format", "json"}) == "attnctl: warning: --sort sorts only text\n");
  CHECK(warning({"--top", "3", "--format", "json"}).starts_with("attnctl: warning: --top changes only text"));
  CHECK(warning({"--top", "3", "--from", "it", "--format", "json"}).empty());
  const std::string svg = (folder.path() / "x.svg").string();
  CHECK(run_attnctl({"analyze", kBert, kSentence, "--from", "it", "--to", "was", "-o", svg})
            .err.starts_with("attnctl: warning: --to does not change pictures"));
}

}  // namespace
}  // namespace attnctl::test
