#include <algorithm>
#include <cstddef>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "support/console.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"
#include "textbook/experiments.hpp"

using attnctl::test::run_attnctl;
using attnctl::test::RunResult;
namespace test = attnctl::test;
using nlohmann::json;

namespace {

const std::vector<std::string> kSmall = {"experiment", "scaling", "--d-k", "4,16", "--components", "1024"};

RunResult run_small(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = kSmall;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_attnctl(arguments);
}

TEST_CASE("experiment: every format") {
  const RunResult result = run_small({"--format", "json"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const json document = json::parse(result.out);
  const json schema = json::parse(attnctl::cli::schema_text("attnctl.experiment/2"));
  CHECK(attnctl::test::schema_breaches(schema, document).empty());
  CHECK(document.at("name") == "scaling");
  CHECK(document.at("parameters").at("d_k") == json({4, 16}));
  REQUIRE(document.at("rows").size() == 2);
  CHECK(document.at("rows")[1].at("d_k") == 16);
  CHECK(run_small({"--format", "csv"}).out.starts_with("d_k,score_variance,scaled_score_variance,"));
  CHECK(run_small({"--format", "svg"}).out.find("Variance of the scores") != std::string::npos);
  CHECK(run_small({"--format", "text"}).out.starts_with("Experiment scaling\n"));
  CHECK(run_small({"--format", "json", "--threads", "1"}).out.find("\"seed\": 0") != std::string::npos);
}

TEST_CASE("experiment: runs on a model with given or random inputs, and never overwrites its files") {
  struct Case {
    std::vector<std::string> arguments;
    std::string columns;
    std::size_t rows;
  };
  const std::vector<Case> cases = {
      {{"scaling"}, "component,layer,head,name,rows,score_variance,entropy,temperature,saturated", 12},
      {{"scaling", "--text", "The cat sat.", "--layers", "1", "--saturation", "0.5"},
       "component,layer,head,name,rows,",
       4},
      {{"positions", "--positions", "6"}, "distance,dot_product,", 6},
      {{"distance", "--ids", "1,2,3,4,5,6"},
       "component,layer,head,name,from,to,pairs,weight,uniform,share,",
       15},
      {{"distance", "--ids", "1,2,3,4", "--heads", "0.1,2.3", "--by", "head"},
       "component,layer,head,name,from,to,",
       8},
  };
  for (const Case& each : cases) {
    std::vector<std::string> arguments = {"experiment"};
    arguments.insert(arguments.end(), each.arguments.begin(), each.arguments.end());
    for (const char* more : {"--model", "data/tiny-bert", "--format"}) arguments.emplace_back(more);
    arguments.emplace_back("csv");
    const RunResult csv = run_attnctl(arguments);
    REQUIRE_MESSAGE(csv.status == 0, csv.err);
    CHECK(csv.out.starts_with(each.columns));
    CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == static_cast<std::ptrdiff_t>(each.rows) + 1);
    arguments.back() = "svg";
    CHECK(run_attnctl(arguments).out.find("<svg") != std::string::npos);
    arguments.back() = "json";
    const json document = json::parse(run_attnctl(arguments).out);
    CHECK(document.at("parameters").at("model") == "data/tiny-bert");
    CHECK(document.at("rows").size() == each.rows);
    arguments.insert(arguments.end(), {"-o", "data/tiny-bert/config.json"});
    CHECK(run_attnctl(arguments).status == 2);
  }
}

TEST_CASE("experiment: the text ends with a conclusion and the meaning of each name") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"averaging --targets 2", "The error of 2 separate values is 1.000 with 1 head and 0.000 with 2."},
      {"averaging --targets 1", "The error of 1 separate value is 0.000 with 1 head and 0.000 with 1."},
      {"diversity --d 16 --heads 2 --draws 2", ", and the mean effective rank of specialised heads is "},
      {"diversity --model data/tiny-bert --draws 2",
       " of 3 layers, absolute_similarity is above that of random heads."},
      {"hull", "One head can select 3 of the 4 keys."},
      {"hull --keys 0,0;1,0", "One head can select 2 of the 2 keys."},
      {"heads --d 8 --heads 1,4 --length 4",
       "From 1 to 4 heads, the rank of the scores of a head goes from 4 to 2."},
      {"positions --positions 4 --d 8", "The permutation error is "},
      {"positions --model data/tiny-bert --positions 4", " without positions and "},
      {"positions --model data/tiny-llama --positions 4", " with positions."},
      {"scaling --d-k 4,1 --components 1024",
       "Up to d_k 4, the gradient is not yet smaller without scaling: at d_k 4, "},
      {"scaling --model data/tiny-bert --ids 1,2,3", " of 12 heads have a temperature below 1."},
      {"kinds --n 8 --kinds full", "Closest to full attention by total variation: no kind."},
      {"kinds --n 8 --kinds full,window:2", "Closest to full attention by total variation: window:2."},
      {"kinds --n 12 --kinds block:16,window:2", "Closest to full attention by total variation: window:2."},
      {"gradients --n 4 --d 8 --heads 2",
       "At d_k 4, dividing the scores by sqrt(d_k) makes the gradient of all heads smaller (norm "},
      {"gradients --model data/tiny-bert --ids 1,2,3",
       " has the largest positive attribution to the logit of \""},
      {"distance --n 8", "At distance 7, the influence is "},
      {"distance --model data/tiny-bert --ids 1,2,3", "Keys at distance 0 or 1 have "},
      {"distance --model data/tiny-bert --ids 1", "have 1 times their weight in uniform attention."},
  };
  const auto split = [](const std::string& text, char separator) {
    std::istringstream stream(text);
    std::vector<std::string> parts;
    for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
    return parts;
  };
  std::set<std::string> names;
  for (const auto& [words, conclusion] : cases) {
    const std::string& command = words;
    CAPTURE(command);
    std::vector<std::string> arguments = split("experiment " + command, ' ');
    names.insert(arguments[1]);
    arguments.insert(arguments.end(), {"--format", "csv"});
    std::vector<std::string> columns = split(test::lines_of(run_attnctl(arguments).out).at(0), ',');
    std::erase_if(columns, [](const std::string& name) { return name == "component" || name == "name"; });
    arguments.back() = "json";
    std::vector<std::string> others;  // names of the summary
    const json summary = json::parse(run_attnctl(arguments).out)["summary"];
    for (const auto& [name, value] : summary.items()) {
      CHECK_NOTHROW((void)attnctl::cli::explanation(std::string(name)));
      const bool is_column = std::ranges::find(columns, name) != columns.end();
      if (!value.is_structured() && !is_column) others.push_back(name);
    }
    arguments.back() = "text";
    const RunResult result = run_attnctl(arguments);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    const std::vector<std::string> lines = test::lines_of(result.out);
    REQUIRE(lines.size() > columns.size() + others.size() + 4);
    const std::size_t first = lines.size() - columns.size() - others.size();
    for (const std::string& name : others)
      CHECK_MESSAGE(result.out.find("\n" + name + ": ") != std::string::npos, name);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      CAPTURE(columns[i]);
      CHECK(lines[first + i].starts_with(columns[i] + ": "));
      CHECK(lines[first + i].size() > columns[i].size() + 8);  // has a meaning
    }
    CHECK(lines[first - 1].empty());
    CHECK_MESSAGE(lines[first - 2].find(conclusion) != std::string::npos, lines[first - 2]);
    CHECK(lines[first - 2].ends_with('.'));
    CHECK(lines[first - 3].empty());
  }
  std::set<std::string> defined;
  for (const attnctl::NamedDefinitions& each : attnctl::textbook::definitions()) {
    defined.emplace(each.where);
    CHECK_FALSE(each.definitions.empty());
    for (const attnctl::Definition& about : each.definitions) CHECK_FALSE(about.meaning.empty());
  }
  CHECK(defined == names);
}

TEST_CASE("experiment: the conclusion has numbers of the run") {
  const json row = json::parse(run_small({"--format", "json"}).out).at("rows").at(1);
  const std::string expected =
      fmt::format(" is {:.3f} without scaling and {:.3f} with scaling.",
                  row.at("jacobian_norm").get<double>(), row.at("scaled_jacobian_norm").get<double>());
  CHECK(run_small({"--format", "text"}).out.find(expected) != std::string::npos);
}

TEST_CASE("experiment scaling: pairs of columns, and what scaling changes for gradients") {
  const RunResult csv = run_attnctl({"experiment", "scaling", "--d-k", "1024", "--format", "csv"});
  CHECK(csv.out.starts_with(
      "d_k,score_variance,scaled_score_variance,jacobian_norm,scaled_jacobian_norm,largest_weight,"
      "scaled_largest_weight,entropy,scaled_entropy,queries\r\n"));
  const json row = json::parse(run_attnctl({"experiment", "scaling", "--d-k", "1024"}).out)["rows"][0];
  const std::string text = run_attnctl({"experiment", "scaling", "--d-k", "1024", "--format", "text"}).out;
  CHECK(
      text.find(fmt::format("At d_k 1024, the variance of the scores is {:.3f}; if scores are divided by "
                            "sqrt(d_k), it is {:.3f}. Without scaling, the mean largest weight is {:.3f}, so "
                            "softmax saturates; with scaling, it is {:.3f}. From d_k 1024 on, the gradient ",
                            row["score_variance"].get<double>(), row["scaled_score_variance"].get<double>(),
                            row["largest_weight"].get<double>(),
                            row["scaled_largest_weight"].get<double>())) != std::string::npos);
  CHECK(text.find("\nscaled_entropy: entropy of a row of weights with scores divided by sqrt(d_k)") !=
        std::string::npos);
}

TEST_CASE("experiment gradients: the logit at a mask token, and a picture that names what it shows") {
  const auto run = [](const std::string& text, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"experiment",     "gradients", "--model",
                                          "data/tiny-bert", "--text",    text};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_attnctl(arguments).out;
  };
  const std::string masked = "The cat [MASK] on the mat.";
  const json summary = json::parse(run(masked, {"--format", "json"}))["summary"];
  CHECK(summary["position"] == 3);
  CHECK(json::parse(run(masked, {"--format", "json", "--position", "1"}))["summary"]["position"] == 1);
  CHECK(json::parse(run("The cat.", {"--format", "json"}))["summary"]["position"] == 4);
  const std::string hint = "give --position and --target.";
  CHECK(run("The cat.", {"--format", "text"}).find(hint) != std::string::npos);
  CHECK(run("The cat.", {"--format", "text", "--position", "1"}).find(hint) == std::string::npos);
  CHECK(run(masked, {"--format", "text"}).find(hint) == std::string::npos);
  const std::string logit = ": logit of &quot;:&quot; at position 3<";
  for (const char* picture : {"charts", "heads"}) {
    const std::string svg = run(masked, {"--format", "svg", "--picture", picture});
    for (const std::string& shown : {logit, std::string(">data/tiny-bert<"), ">" + masked + "<"})
      CHECK_MESSAGE(svg.find(shown) != std::string::npos, shown);
  }
}

TEST_CASE("experiment: text names rows over all heads") {
  const auto has = [](const std::vector<std::string>& more, const char* row) {
    std::vector<std::string> arguments = {"experiment"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.insert(arguments.end(), {"--format", "text"});
    return run_attnctl(arguments).out.find(row) != std::string::npos;
  };
  CHECK(has({"gradients", "--n", "4", "--d", "8", "--heads", "2"}, "\n  4  1.000  all  "));
  CHECK(has({"distance", "--model", "data/tiny-bert", "--ids", "1,2,3"}, "\n    0  all      0   0 "));
  CHECK(has({"gradients", "--model", "data/tiny-bert", "--ids", "1,2,3"}, "\n0          -     -  "));
}

TEST_CASE("experiment: an input is never an output") {
  const test::TempDir folder;
  const std::string keys = folder.write("keys.json", "[[1, 0], [0, 1]]").string();
  const std::vector<std::vector<std::string>> refused = {
      {"hull", "--keys", keys, "-o", keys},
      {"diversity", "--model", "data/tiny-bert", "-o", "data/tiny-bert/config.json"},
      {"kinds", "--model", "data/tiny-bert", "--ids", "1,2", "-o", "data/tiny-bert/config.json"},
      {"positions", "--model", "data/tiny-bert", "-o", "data/tiny-bert/config.json"},
      {"kinds", "--model", "data/tiny-bert", "--input", keys, "-o", keys},
  };
  for (const std::vector<std::string>& each : refused) {
    CAPTURE(each[0]);
    std::vector<std::string> arguments = {"experiment"};
    arguments.insert(arguments.end(), each.begin(), each.end());
    const RunResult result = run_attnctl(arguments);
    CHECK(result.status == 2);
    CHECK(result.err.find("input") != std::string::npos);
  }
  CHECK(test::slurp(keys) == "[[1, 0], [0, 1]]");
}

TEST_CASE("experiment: options of generated numbers and of a model exclude each other") {
  const std::vector<std::vector<std::string>> refused = {
      {"scaling", "--model", "data/tiny-bert", "--d-k", "4"},
      {"scaling", "--ids", "1,2"},
      {"scaling", "--saturation", "0.9"},
      {"distance", "--model", "data/tiny-bert", "--n", "8"},
      {"distance", "--by", "head"},
      {"distance", "--layers", "0"},
      {"gradients", "--d", "10", "--heads", "3"},
  };
  for (const std::vector<std::string>& each : refused) {
    CAPTURE(each[1]);
    std::vector<std::string> arguments = {"experiment"};
    arguments.insert(arguments.end(), each.begin(), each.end());
    const RunResult result = run_attnctl(arguments);
    CHECK(result.status == 2);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
}

TEST_CASE("experiment: --picture draws a heatmap by its name, the default is charts") {
  const std::vector<std::string> small = {"experiment", "positions", "--positions", "6",
                                          "--d",        "8",         "--format",    "svg"};
  const auto drawn = [&](const std::string& picture) {
    std::vector<std::string> arguments = small;
    if (!picture.empty()) arguments.insert(arguments.end(), {"--picture", picture});
    return run_attnctl(arguments);
  };
  const std::string charts = drawn("").out;
  CHECK(charts.find("Experiment: positions") != std::string::npos);
  CHECK(drawn("charts").out == charts);
  CHECK(drawn("matrix").out.find(">Sinusoidal Positions<") != std::string::npos);
  CHECK(drawn("similarity").out.find(">Similarity of Sinusoidal Positions<") != std::string::npos);
  const RunResult unknown = drawn("learned");  // needs --model
  CHECK(unknown.status == 2);
  CHECK(unknown.err ==
        "attnctl: --picture: unsupported \"learned\"; this run has charts, matrix, similarity\n");
}

TEST_CASE("experiment: unknown names and values are rejected") {
  RunResult result = run_attnctl({"experiment", "no-such"});
  CHECK(result.status == 2);
  result = run_attnctl({"experiment"});
  CHECK(result.status == 2);
  result = run_small({"--format", "npz"});
  CHECK(result.status == 2);
  result = run_attnctl({"experiment", "scaling", "--d-k", "0"});
  CHECK(result.status == 2);
  result = run_small({"--format", "svg", "--picture", "no-such"});
  CHECK(result.status == 2);
  CHECK(result.err == "attnctl: --picture: unsupported \"no-such\"; this run has charts\n");
  result = run_small({"--format", "text", "--picture", "charts"});
  CHECK(result.status == 2);
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"positions", "--d", "7"},
        {"positions", "--positions", "1"},
        {"positions", "--model", "data/tiny-bert", "--positions", "129"},
        {"heads", "--d", "512", "--heads", "3"},
        {"heads", "--heads", "0"},
        {"heads", "--length", "0"}}) {
    std::vector<std::string> arguments = wrong;
    arguments.insert(arguments.begin(), "experiment");
    CHECK(run_attnctl(arguments).status == 2);
  }
}

}  // namespace
