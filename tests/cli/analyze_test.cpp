#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "analysis/patterns/pattern_metrics.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "cli/commands.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

using attnctl::test::run_attnctl;
using attnctl::test::run_shell;
using attnctl::test::RunResult;
using attnctl::test::slurp;
using attnctl::test::TempDir;
using nlohmann::json;

namespace {

const std::string kLlama = "tests/golden/llama";
const std::string kBert = "tests/golden/bert";

json run_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--format", "json"});
  const RunResult result = run_attnctl(arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return json::parse(result.out);
}

/// Returns the first violation of the document's own schema; an empty string if it conforms.
std::string breach(const json& document) {
  const json schema = json::parse(attnctl::cli::schema_text(document.at("schema").get<std::string>()));
  const std::vector<std::string> breaches = attnctl::test::schema_breaches(schema, document);
  return breaches.empty() ? "" : breaches.front();
}

/// The shape and values of an array of an NPZ.
struct Loaded {
  attnctl::Shape shape;
  std::vector<double> values;
};
Loaded load(attnctl::checkpoint::Checkpoint& npz, const std::string& name) {
  const std::size_t index = npz.find(name);
  REQUIRE_MESSAGE(index != attnctl::checkpoint::Checkpoint::npos, name);
  const attnctl::checkpoint::TensorView tensor = npz.tensor(index);
  Loaded loaded{tensor.shape, {}};
  loaded.values.resize(tensor.bytes.size() / attnctl::size_of(tensor.dtype));
  attnctl::convert(tensor.dtype, tensor.bytes, loaded.values);
  return loaded;
}

}  // namespace

TEST_CASE("analyze writes a document of its schema for every --include") {
  for (const std::string model : {"tests/golden/llama", "tests/golden/bert", "tests/golden/gpt2",
                                  "tests/golden/albert", "tests/golden/bert-headless"}) {
    CAPTURE(model);
    const json document = run_json(
        {"analyze", model, "--ids", "5,6,7,8,9", "--ids", "3", "--from", "2", "--to", "0,1", "--include",
         "metrics,patterns,scores,queries,keys,values,z,output,logits,weights,directions,circuits,rollout"});
    CHECK(breach(document) == "");
    CHECK(document["inputs"].size() == 2);
    const std::size_t heads =
        document["model"]["layers"].get<std::size_t>() * document["model"]["heads"].get<std::size_t>();
    CHECK(document["heads"].size() == heads);
    CHECK(document["patterns"].size() == 2 * heads);
    CHECK(document["heads"][0]["rows"] == 6);
    for (const json& pattern : document["patterns"]) {
      for (const json& row : pattern["weight"]) {
        double sum = 0;
        for (const json& weight : row) sum += weight.get<double>();
        CHECK(sum == doctest::Approx(1).epsilon(1e-5));
      }
    }
    for (const json& rollout : document["rollout"]) {
      double sum = 0;
      for (const json& weight : rollout["weight"]) sum += weight.get<double>();
      CHECK(sum == doctest::Approx(1).epsilon(1e-5));
    }
  }
}

TEST_CASE("the default includes metrics, patterns and weights, and the heads carry all of them") {
  const json document = run_json({"analyze", kLlama, "--ids", "5,6,7,8"});
  std::vector<std::string> sections;
  for (const auto& [name, value] : document.items()) sections.push_back(name);
  for (const char* name : {"schema", "attnctl", "model", "inputs", "metrics", "heads", "subspace_similarity",
                           "patterns", "warnings"}) {
    CAPTURE(name);
    CHECK(document.contains(name));
  }
  CHECK_FALSE(document.contains("principal_directions"));
  CHECK_FALSE(document.contains("arrays"));
  const json& head = document["heads"][1];
  CHECK(head["name"] == "0.1");
  CHECK(head["component"].is_null());
  for (const char* name :
       {"qk_effective_rank", "ov_effective_rank", "entropy", "confidence", "self", "first_token"}) {
    CAPTURE(name);
    CHECK(head[name].is_number());
  }
}

TEST_CASE("the same command gives the same bytes, and threads change little") {
  const std::vector<std::string> command = {"analyze",         kLlama,     "--ids",
                                            "5,6,7,8,9,10,11", "--format", "json"};
  const RunResult first = run_attnctl(command);
  CHECK(first.status == 0);
  CHECK(run_attnctl(command).out == first.out);
  const auto patterns = [&](const char* threads) {
    return run_json({"analyze", kLlama, "--ids", "5,6,7,8,9,10,11", "--threads", threads})["patterns"];
  };
  const json one = patterns("1");
  const json two = patterns("2");
  REQUIRE(one.size() == two.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    for (std::size_t q = 0; q < 7; ++q) {
      for (std::size_t k = 0; k < 7; ++k) {
        CHECK(std::abs(one[i]["weight"][q][k].get<double>() - two[i]["weight"][q][k].get<double>()) <= 1e-5);
      }
    }
  }
}

TEST_CASE("npz, json, jsonl and csv show the same numbers") {
  TempDir dir;
  const std::string npz_path = (dir.path() / "x.npz").string();
  const std::string csv_path = (dir.path() / "tables").string();
  const std::vector<std::string> command = {"analyze", kLlama, "--ids", "5,6,7,8,9", "--layers", "0-1"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = command;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const json document = run_json(command);
  CHECK(run_attnctl(with({"-o", npz_path})).status == 0);
  CHECK(run_attnctl(with({"-o", csv_path, "--format", "csv"})).status == 0);
  attnctl::Warnings warnings;
  const std::unique_ptr<attnctl::checkpoint::Checkpoint> npz =
      attnctl::checkpoint::open_checkpoint(npz_path, warnings);
  const std::size_t heads = document["model"]["heads"].get<std::size_t>();

  const Loaded pattern = load(*npz, "pattern_0");
  CHECK(pattern.shape == attnctl::Shape{2, heads, 5, 5});
  std::size_t place = 0;
  for (const json& each : document["patterns"]) {
    for (const json& row : each["weight"]) {
      for (const json& weight : row) CHECK(pattern.values[place++] == weight.get<float>());
    }
  }
  CHECK(load(*npz, "layers").values == std::vector<double>{0, 1});
  CHECK(load(*npz, "ids_0").values == std::vector<double>{5, 6, 7, 8, 9});
  CHECK(load(*npz, "qk_similarity").shape == attnctl::Shape{2, heads, heads});
  const Loaded ranks = load(*npz, "qk_effective_rank");
  for (std::size_t i = 0; i < document["heads"].size(); ++i) {
    CHECK(ranks.values[i] ==
          doctest::Approx(document["heads"][i]["qk_effective_rank"].get<double>()).epsilon(1e-6));
  }

  const std::string heads_csv = slurp(csv_path + "/heads.csv");
  std::string header =
      "component,layer,head,name,kv_head,rows,qk_effective_rank,ov_effective_rank,qk_stable_rank,"
      "ov_stable_rank,qk_numerical_rank,ov_numerical_rank,";
  for (const attnctl::analysis::RowMetric& metric : attnctl::analysis::row_metrics())
    header += std::string(metric.about.name) + ",";
  CHECK(heads_csv.starts_with(header + "best_offset,best_offset_share\r\n"));
  const std::string patterns_csv = slurp(csv_path + "/patterns.csv");
  CHECK(patterns_csv.starts_with(
      "input,component,layer,head,name,query,key,query_token,key_token,weight\r\n0,,0,0,0.0,0,0,,,1\r\n"));
  CHECK(slurp(csv_path + "/subspace_similarity.csv")
            .starts_with("circuit,component,layer_a,head_a,name_a,layer_b,head_b,name_b,similarity\r\n"));
  CHECK(slurp(csv_path + "/inputs.csv").starts_with("input,position,token,id\r\n0,0,,5\r\n"));
  CHECK(slurp(csv_path + "/singular_values.csv")
            .starts_with("circuit,component,layer,head,name,rank,singular_value\r\n"));

  const RunResult lines = run_attnctl(with({"--format", "jsonl"}));
  std::size_t head_records = 0;
  std::size_t begin = 0;
  while (begin < lines.out.size()) {
    const std::size_t end = lines.out.find('\n', begin);
    const json record = json::parse(lines.out.substr(begin, end - begin));
    if (begin == 0) CHECK(record["schema"] == "attnctl.analysis/2");
    if (record.value("record", "") == "head") ++head_records;
    begin = end + 1;
  }
  CHECK(head_records == 2 * heads);
}

TEST_CASE("tsv is csv with tabs, as a folder, a file or a pipe") {
  const TempDir dir;
  const auto run = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"analyze", kLlama, "--ids", "5,6,7", "--layers", "0"});
    return run_attnctl(more);
  };
  const std::string csv = (dir.path() / "csv").string();
  const std::string tsv = (dir.path() / "tsv").string();
  REQUIRE(run({"--format", "csv", "-o", csv}).status == 0);
  REQUIRE(run({"--format", "tsv", "-o", tsv}).status == 0);
  std::size_t tables = 0;
  for (const auto& entry : std::filesystem::directory_iterator(csv)) {
    CAPTURE(entry.path().string());
    std::string text = slurp(entry.path());  // no cell has a comma or a tab
    std::ranges::replace(text, ',', '\t');
    CHECK(slurp(tsv + "/" + entry.path().stem().string() + ".tsv") == text);
    ++tables;
  }
  CHECK(tables >= 4);

  const std::string file = (dir.path() / "heads.tsv").string();
  CHECK(run({"--table", "heads", "-o", file}).status == 0);
  CHECK(slurp(file) == slurp(tsv + "/heads.tsv"));
  CHECK(run({"--table", "heads", "--format", "tsv"}).out == slurp(file));
}

TEST_CASE("without --format, every command needs an extension of its own formats") {
  const std::string corpus = "data/sentences.txt";
  for (const std::vector<std::string>& words : {
           std::vector<std::string>{"analyze", kLlama, "--ids", "1"},
           std::vector<std::string>{"weights", kLlama},
           std::vector<std::string>{"info", kLlama},
           std::vector<std::string>{"tokenize", "data/tiny-bert", "--text", "a"},
           std::vector<std::string>{"verify", kLlama, "--ids", "1"},
           std::vector<std::string>{"bench", kLlama},
           std::vector<std::string>{"study", "data/tiny-bert", "--input", corpus},
           std::vector<std::string>{"plan", "data/tiny-bert", "--input", corpus, "--nodes", "2"},
           std::vector<std::string>{"experiment", "scaling"},
       }) {
    for (const std::string extension : {".jpg", ".xyz", ".gz", ".JSON"}) {
      CAPTURE(words[0]);
      const TempDir dir;
      const std::string file = (dir.path() / "x.json").string() + extension;
      std::vector<std::string> arguments = words;
      arguments.insert(arguments.end(), {"-o", file});
      const RunResult result = run_attnctl(arguments);
      CHECK(result.status == 2);
      CHECK_MESSAGE(result.err.starts_with("attnctl: -o " + file + ": got the extension " + extension +
                                           ", need one of .json, .jsonl, "),
                    result.err);
      const bool pictures =
          words[0] == "analyze" || words[0] == "weights" || words[0] == "study" || words[0] == "experiment";
      CHECK((result.err.find(", .svg, .png, .pdf, .html, .txt; ") != std::string::npos) == pictures);
      CHECK(std::filesystem::is_empty(dir.path()));
    }
  }
}

TEST_CASE("the extension of -o is free with --format, and for devices") {
  const TempDir dir;
  std::filesystem::create_symlink("/dev/null", dir.path() / "null.dat");
  const auto run = [&](std::vector<std::string> words, const char* file) {
    words.insert(words.end(), {"-o", (dir.path() / file).string()});
    return run_attnctl(words);
  };
  CHECK(run({"info", kLlama, "--format", "json"}, "x.dat").status == 0);
  CHECK(json::parse(slurp(dir.path() / "x.dat"))["schema"] == "attnctl.info/2");
  CHECK(run({"info", kLlama}, "plain").status == 0);
  CHECK(json::parse(slurp(dir.path() / "plain"))["schema"] == "attnctl.info/2");
  CHECK(run({"info", kLlama}, "null.dat").status == 0);
  CHECK(run({"info", kLlama, "--format", "json"}, "x.tsv").err.find("contradicts") != std::string::npos);
  CHECK(run({"analyze", kLlama, "--ids", "1"}, "x.tsv").err.find("--table") != std::string::npos);
  for (const char* file : {"x.tsv", "x.npz", "x.svg", "x.png", "x.pdf"}) {
    const RunResult result = run({"info", kLlama}, file);
    CHECK(result.status == 2);
    CHECK_MESSAGE(result.err.find("need one of .json, .jsonl, .csv, .txt;") != std::string::npos, result.err);
  }
}

TEST_CASE("a ragged selection has one axis in the npz") {
  TempDir dir;
  const std::string path = (dir.path() / "x.npz").string();
  CHECK(run_attnctl({"analyze", kLlama, "--ids", "5,6,7", "--heads", "0.1,1.0,1.2", "-o", path}).status == 0);
  attnctl::Warnings warnings;
  const auto npz = attnctl::checkpoint::open_checkpoint(path, warnings);
  CHECK(load(*npz, "pattern_0").shape == attnctl::Shape{3, 3, 3});
  CHECK(load(*npz, "heads").values == std::vector<double>{0, 1, 1, 0, 1, 2});
  CHECK(load(*npz, "qk_effective_rank").shape == attnctl::Shape{3});
}

TEST_CASE("--from shows what a word attends to, with its pieces merged") {
  const json document =
      run_json({"analyze", "data/attention-demo.json", "--input", "data/sentences.jsonl", "--from", "it",
                "--to", "animal,tired", "--top", "2", "--include", "metrics,patterns"});
  CHECK(breach(document) == "");
  REQUIRE(document["attention_from"].size() > 0);
  for (const json& answer : document["attention_from"]) {
    CHECK(answer["top"].size() == 2);
    CHECK(answer["query_token"] == "it");
    const json* pattern = nullptr;
    for (const json& each : document["patterns"]) {
      if (each["input"] == answer["input"] && each["name"] == answer["name"]) pattern = &each;
    }
    REQUIRE(pattern != nullptr);
    const json& row = (*pattern)["weight"][answer["query"].get<std::size_t>()];
    for (const json& key : answer["top"]) CHECK(key["weight"] == row[key["key"].get<std::size_t>()]);
    CHECK(answer["top"][0]["weight"] >= answer["top"][1]["weight"]);
  }
}

TEST_CASE("usage errors are one line and status 2") {
  TempDir dir;
  struct Row {
    int kind;
    std::vector<std::string> arguments;
    std::string says;
  };
  const std::string npz = (dir.path() / "x.npz").string();
  const std::string copy = (dir.path() / "model").string();  // keeps the source tree unchanged
  std::filesystem::copy(kLlama, copy);
  for (const Row& row : {
           Row{140, {"analyze", kLlama, "--ids", "1", "--frobnicate"}, "--frobnicate"},
           Row{141, {"analyze", kLlama, "--ids"}, "--ids"},
           Row{142, {"analyze", kLlama, "--ids", "1", "--layers", "99"}, "99"},
           Row{142, {"analyze", kLlama, "--ids", "1", "--heads", "0.99"}, "0.99"},
           Row{143, {"analyze", kLlama, "--input", "-", "--input", "-"}, "standard input"},
           Row{144, {"analyze", kLlama, "--ids", "1", "--format", "json", "-o", npz}, "contradicts"},
           Row{0, {"analyze", kLlama}, "no input"},
           Row{0, {"analyze", kLlama, "--ids", "1", "--layers", "2-1"}, "2-1"},
           Row{0, {"analyze", kLlama, "--ids", "1", "--include", "metrics,all"}, "unsupported \"all\""},
           Row{0, {"analyze", kLlama, "--ids", "1", "--format", "csv"}, "-o DIRECTORY"},
           Row{0, {"analyze", kLlama, "--ids", "1", "--format", "tsv"}, "tsv is several tables"},
           Row{0, {"analyze", kLlama, "--ids", "1", "--table", "heads", "-o", npz}, "--format csv or tsv"},
           Row{0, {"analyze", kLlama, "--ids", "1", "--from", "99"}, "99"},
           Row{0, {"analyze", kLlama, "--ids", "1", "--to", "0"}, "--from"},
           Row{0, {"analyze", kLlama, "--ids", "1", "--threads", "0"}, "--threads"},
           Row{0, {"weights", kLlama, "--include", "patterns"}, "inputs"},
           Row{0, {"frobnicate"}, "frobnicate"},
           Row{126, {"analyze", copy, "--ids", "1", "-o", copy + "/config.json"}, "input of this run"},
           Row{126,
               {"info", copy, "--format", "json", "-o", copy + "/model.safetensors"},
               "input of this run"},
       }) {
    CAPTURE(row.kind);
    CAPTURE(row.says);
    const RunResult result = run_attnctl(row.arguments);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK_MESSAGE(result.err.starts_with("attnctl: "), result.err);
    CHECK_MESSAGE(result.err.find(row.says) != std::string::npos, result.err);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
}

TEST_CASE("the error for an unknown name has the closest known one") {
  struct Row {
    std::vector<std::string> arguments;
    std::string says;
  };
  for (const Row& row : {
           Row{{"analyse", kLlama},
               "unknown command \"analyse\" (did you mean \"analyze\"?); attnctl --help shows the commands"},
           Row{{"experiment", "diversit"},
               "unknown experiment \"diversit\" (did you mean \"diversity\"?); attnctl experiment --help "
               "shows"},
           Row{{"experiment", "xyz"},
               "unknown experiment \"xyz\", need one of averaging, diversity, hull, heads, positions, "
               "scaling, "},
           Row{{"analyze", kLlama, "--txt", "a"},
               "unknown option --txt (did you mean \"--text\"?); attnctl analyze --help shows the options"},
           Row{{"study", kLlama, "--truncate"},
               "unknown option --truncate (--stride cuts long texts into windows)"},
           Row{{"analyze", kLlama, "--ids", "1", "--show", "X3"},
               "--show: got \"X3\", need a head such as 3.1, or a layer such as 3"},
           Row{{"weights", kLlama, "--progress", "alway"},
               "got alway (did you mean \"always\"?), need one of"},
           Row{{"completion"}, "SHELL is required; give one of bash, zsh, fish"},
           Row{{"completion", "zs"}, "got zs (did you mean \"zsh\"?), need one of bash, zsh, fish"},
           Row{{"info", "--preset", "bert-bse"}, "got bert-bse (did you mean \"bert-base\"?), need one of"},
           Row{{"analyze", kLlama, "--ids", "1", "--include", "metrics,paterns"},
               "unsupported \"paterns\" (did you mean \"patterns\"?); known: metrics, "},
           Row{{"weights", kLlama, "--include", "map", "--similarity", "vo"},
               "unsupported \"vo\" (did you mean \"ov\"?); known: qk, "},
           Row{{"study", kLlama, "--input", "x.txt", "--measures", "sintax"},
               "unsupported \"sintax\" (did you mean \"syntax\"?); known: metrics, "},
           Row{{"analyze", kLlama, "--ids", "1", "--format", "text", "--sort", "entropi"},
               "no such column (did you mean \"entropy\"?); attnctl explain lists the columns; to sort by a "
               "word"},
           Row{{"analyze", kLlama, "--ids", "1", "--format", "json", "--sort", "entropi"},
               "no such column (did you mean \"entropy\"?)"},
           Row{{"analyze", kLlama, "--ids", "1", "--format", "csv", "--table", "head"},
               "unsupported \"head\" (did you mean \"heads\"?); this run has heads, "},
       }) {
    CAPTURE(row.says);
    const RunResult result = run_attnctl(row.arguments);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK_MESSAGE(result.err.find(row.says) != std::string::npos, result.err);
  }
}

TEST_CASE("without a command, the help is printed and the status is 2") {
  for (const std::vector<std::string>& words : {std::vector<std::string>{}, {"experiment"}}) {
    std::vector<std::string> help = words;
    help.emplace_back("--help");
    const RunResult result = run_attnctl(words);
    CHECK(result.status == 2);
    CHECK(result.out == run_attnctl(help).out);
    CHECK(result.out.find(words.empty() ? "\n  completion " : "\n  averaging ") != std::string::npos);
    CHECK_MESSAGE(result.err.starts_with("attnctl: need a command: one of a"), result.err);
  }
}

TEST_CASE("the help names a folder of tables exactly if -o can be one") {
  const TempDir folder;
  const std::string model = "data/tiny-llama", sentences = "data/sentences.txt";
  for (const std::vector<std::string>& words : {
           std::vector<std::string>{"analyze", model, "--ids", "1,2"},
           {"study", model, "--input", sentences, "--measures", "metrics"},
           {"tokenize", model, "the cat"},
           {"info", model},
           {"compare", model, model},
           {"patch", model, "--clean", "one cat", "--corrupt", "one house"},
           {"attribute", model, "--text", "one cat"},
           {"verify", model},
           {"plan", model, "--input", sentences, "--nodes", "1"},
           {"explain", "entropy"},
       }) {
    CAPTURE(words);
    std::istringstream text(run_attnctl({words.front(), "--help"}).out);
    std::string help;  // as one line
    for (std::string word; text >> word;) help += word + " ";
    std::vector<std::string> command = words;
    command.insert(command.end(), {"--format", "csv", "-o", folder.path().string()});
    const RunResult result = run_attnctl(command);
    const bool writes = result.status == 0;
    CHECK_MESSAGE(
        (writes || result.err.find(": is a directory, but csv is written to one file") != std::string::npos),
        result.err);
    CHECK((help.find("or folder of tables") != std::string::npos) == writes);
    if (help.find("--table") != std::string::npos)
      CHECK((help.find("table to write (default: ") != std::string::npos) != writes);
  }
}

TEST_CASE("--heads accepts the names 0.1, 0:1 and L0H1") {
  const auto metrics = [](const std::string& heads) {
    return run_attnctl(
        {"analyze", kLlama, "--ids", "1,2,3", "--heads", heads, "--include", "metrics", "--format", "json"});
  };
  const RunResult wanted = metrics("0.1,1.0");
  REQUIRE_MESSAGE(wanted.status == 0, wanted.err);
  for (const char* heads : {"0:1,1:0", "L0H1,L1H0", "l0h1,1.0"}) {
    CAPTURE(heads);
    CHECK(metrics(heads).out == wanted.out);
  }
  struct Row {
    const char* heads;
    const char* says;
  };
  for (const Row& row :
       {Row{"L0.1", "need LAYER.HEAD"}, Row{"0H1", "need LAYER.HEAD"}, Row{"L0H", "need LAYER.HEAD"},
        Row{"0:1:2", "need LAYER.HEAD"}, Row{"L9H0", "got L9H0: the model has 2 layers (0 to 1)"},
        Row{"0:99", "got 0:99: layer 0 has "}, Row{"1", "; --layers 1 selects all heads of a layer"}}) {
    CAPTURE(row.heads);
    const RunResult result = metrics(row.heads);
    CHECK(result.status == 2);
    CHECK_MESSAGE(result.err.find(row.says) != std::string::npos, result.err);
  }
}

TEST_CASE("an output over the limit is rejected before computing, with its size") {
  const RunResult result = run_attnctl({"analyze", kLlama, "--ids", "1,2,3,4,5,6", "--limit", "100"});
  CHECK(result.status == 5);
  CHECK_MESSAGE(result.err.find("--limit allows 100 values") != std::string::npos, result.err);
  CHECK_MESSAGE(result.err.find("bytes") != std::string::npos, result.err);
  CHECK_MESSAGE(result.err.find("npz") != std::string::npos, result.err);
}

TEST_CASE("a reader that closes the pipe is not an error") {
  const RunResult result = run_shell("attnctl analyze tests/golden/llama --ids 1,2,3,4,5,6,7,8 | head -c 10");
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(run_shell("attnctl --help | head -n 1").err.empty());
}

TEST_CASE("the summary has ranks, similarities and the heads, sorted and cut") {
  const RunResult result =
      run_attnctl({"analyze", kBert, "--ids", "5,6,7,8", "--format", "text", "--sort", "entropy", "--top",
                   "2", "--from", "1", "--to", "0", "--include", "metrics,weights"});
  CHECK(result.status == 0);
  for (const char* part : {"Effective ranks of QK by layer and head (1 to ", "Average pairwise similarity",
                           "looks at", "entropy"}) {
    CAPTURE(part);
    CHECK_MESSAGE(result.out.find(part) != std::string::npos, result.out);
  }
  for (const char* const column : {"rows", "kv_head", "layer", "name", "ov_stable_rank"}) {
    CAPTURE(column);
    CHECK(run_attnctl({"analyze", kBert, "--ids", "5", "--format", "text", "--sort", column}).status == 0);
  }
  const RunResult bad = run_attnctl({"analyze", kBert, "--ids", "5", "--format", "text", "--sort", "beauty"});
  CHECK(bad.status == 2);
  CHECK(bad.err.find("beauty") != std::string::npos);
}

TEST_CASE("text shows the most probable tokens of each [MASK], or after the last token") {
  std::vector<std::string> arguments = {
      "analyze", "data/tiny-bert", "--text", "The [MASK] sat on the [MASK].", "--include", "logits"};
  const json values = run_json(arguments)["arrays"][0]["value"];
  std::vector<std::string> names;  // by id
  std::istringstream vocabulary(slurp("data/tiny-bert/vocab.txt"));
  for (std::string line; std::getline(vocabulary, line);) names.push_back(line);
  arguments.insert(arguments.end(), {"--format", "text", "--top", "40"});
  const RunResult result = run_attnctl(arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  std::istringstream page(result.out);
  std::vector<std::size_t> positions = {6, 2};
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("Token at")) continue;
    REQUIRE_FALSE(positions.empty());
    const std::size_t position = positions.back();
    positions.pop_back();
    CHECK(line == "Token at \"[MASK]\" (input \"0\", position " + std::to_string(position) + ")");
    const std::vector<double> logits = values[position].get<std::vector<double>>();
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::size_t id) { return -logits[id]; });
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    std::getline(page, line);
    CHECK(line.starts_with("rank  token"));
    for (std::size_t i = 0; i < 40; ++i) {
      std::size_t rank = 0;
      std::string token;
      double probability = 0;
      page >> rank >> token >> probability;
      CHECK(rank == i + 1);
      CHECK(token == names[order[i]]);
      CHECK(std::abs(probability - std::exp(logits[order[i]]) / sum) < 6e-5);
    }
  }
  CHECK(positions.empty());
  const RunResult next = run_attnctl(
      {"analyze", "data/tiny-llama", "--text", "Once upon a", "--include", "logits", "--format", "text"});
  CHECK_MESSAGE(next.out.find("Next token after \"Ġa\" (input \"0\", position 5)\nrank") != std::string::npos,
                next.out);
  CHECK(next.out.find("\n   5  ") != std::string::npos);
  CHECK(next.out.find("\n   6  ") == std::string::npos);
  const RunResult unnamed =
      run_attnctl({"analyze", kLlama, "--ids", "5,6", "--include", "logits", "--format", "text"});
  CHECK_MESSAGE(unnamed.out.find("\n   1  #") != std::string::npos, unnamed.out);
}

TEST_CASE("text says which results of --include it does not show") {
  const auto page = [](const std::string& command, const std::string& include) {
    std::vector<std::string> words = {command, "data/tiny-bert", "--heads", "0.0", "--format", "text"};
    if (command == "analyze") words.insert(words.end(), {"--text", "The cat sat."});
    if (!include.empty()) words.insert(words.end(), {"--include", include});
    const RunResult result = run_attnctl(words);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return result.out;
  };
  CHECK(page("analyze", "scores,z,metrics")
            .find("\nText does not show scores, z: use --format json, csv or npz\n") != std::string::npos);
  CHECK(page("weights", "circuits")
            .ends_with("\nText does not show circuits: use --format json, csv or npz\n"));
  CHECK(page("weights", "directions").find("\nText does not show directions: use --format json or csv\n") !=
        std::string::npos);
  for (const std::string command : {"analyze", "weights"})
    CHECK(page(command, "").find("does not show") == std::string::npos);
  CHECK(page("analyze", "logits,patterns").find("does not show") == std::string::npos);
}

TEST_CASE("text predicts the token at the mask_token of the tokenizer") {
  const TempDir folder;
  for (const auto& entry : std::filesystem::directory_iterator("data/tiny-bert"))
    if (entry.path().filename() != "tokenizer.json")
      std::filesystem::copy_file(entry.path(), folder.path() / entry.path().filename());
  json config = json::parse(slurp("data/tiny-bert/tokenizer_config.json"));
  config["mask_token"] = "cat";
  folder.write("tokenizer_config.json", config.dump());
  const RunResult result = run_attnctl({"analyze", folder.path().string(), "--text", "the cat sat .",
                                        "--include", "logits", "--format", "text"});
  CHECK_MESSAGE(result.out.find("Token at \"cat\" (input \"0\", position 2)") != std::string::npos,
                (result.out + result.err));
}

TEST_CASE("- reads standard input") {
  attnctl::test::RunOptions standard_input;
  standard_input.input = "{\"ids\": [1, 2]}\n{\"ids\": [3], \"id\": \"x\"}\n";
  const RunResult result =
      run_attnctl({"analyze", kLlama, "--input", "-", "--include", "metrics"}, standard_input);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json document = json::parse(result.out);
  CHECK(document["inputs"][1]["id"] == "x");
}

TEST_CASE("keys and values of a layer do not depend on the heads selected in other layers") {
  const auto arrays = [](const std::vector<std::string>& selection) {
    std::vector<std::string> arguments = {"analyze",  "data/tiny-bert", "--text",    "the cat",
                                          "--format", "json",           "--include", "keys,values"};
    arguments.insert(arguments.end(), selection.begin(), selection.end());
    const RunResult result = run_attnctl(arguments);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return json::parse(result.out)["arrays"];
  };
  const json some = arrays({"--heads", "0.1,1.0,1.2"});
  const json all = arrays({});
  REQUIRE(some.size() == 4);
  for (const std::size_t array : {std::size_t{0}, std::size_t{1}}) {
    const json& first = all[3 * array]["value"];
    const json& second = all[3 * array + 1]["value"];
    CHECK(some[2 * array]["layer"] == 0);
    CHECK(some[2 * array]["value"] == json::array({first[1]}));
    CHECK(some[2 * array + 1]["layer"] == 1);
    CHECK(some[2 * array + 1]["value"] == json::array({second[0], second[2]}));
  }
}
