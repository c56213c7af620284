#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "study/measure.hpp"
#include "support/console.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

/// Runs `attnctl explain`, which writes to a pipe, and returns its text.
std::string explain(const Words& names) {
  Words words = {"explain"};
  words.insert(words.end(), names.begin(), names.end());
  const RunResult result = run_attnctl(words);
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  return result.out;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("explain prints one block for each meaning of a name, with all its places") {
  const std::string text = explain({"confidence"});
  CHECK(
      text.starts_with("confidence\n  where    analyze --include metrics, table heads; study --measures "
                       "metrics,\n           table heads\n  range    [0, 1]\n  null     1 / "));
  CHECK(contains(text, "\n  meaning  mean largest weight of a query; "));
  CHECK(text.ends_with("\n  source   Voita et al. 2019\n"));
  CHECK_FALSE(contains(text, "unit"));
  CHECK(contains(explain({"entropy"}), "\n  unit     nats\n"));
  CHECK(explain({"layer"}).starts_with("layer\n  where    several tables\n"));
}

TEST_CASE("explain says over what the importance of a head is a mean") {
  CHECK(contains(explain({"importance"}), "mean over sentences, weighted by predicted tokens, of "));
}

TEST_CASE("explain finds a name by the part after its dot") {
  const std::string text = explain({"pairs.frobenius_cosine"});
  CHECK(text.starts_with("pairs.frobenius_cosine\n  where    study --measures pairs\n"));
  CHECK(explain({"frobenius_cosine"}) == text);
  const std::string weights = explain({"weight"});
  for (const char* name : {"weight\n", "\npositional.weight\n", "\nrare.weight\n"})
    CHECK_MESSAGE(contains(weights, name), name);
  CHECK_FALSE(contains(explain({"distance"}), "\ndistance.weight\n"));  // the part before the dot
}

TEST_CASE("explain finds names of several words, but no name by its end") {
  CHECK(contains(explain({"confidence_count"}), "\n  meaning  of confidence: number of rows"));
  CHECK(contains(explain({"w_q_effective_rank"}), "\n  meaning  of w_q: exp of the entropy"));
  CHECK(contains(explain({"interval_low"}), "\n  meaning  lower end of the 95 % interval of accuracy"));
  CHECK(contains(explain({"attention_from.query_token"}), "\n  meaning  the token of the query, or "));
  for (const char* name : {"other_ratio", "no_such_count", "relative_error"})
    CHECK_MESSAGE(run_attnctl({"explain", name}).status == 2, name);
}

TEST_CASE("explain prints the columns of a table, a measure, or one column") {
  const std::string relations = explain({"relations"});
  CHECK(relations.starts_with("study --measures syntax, table relations\n  relation "));
  for (const char* column : {"hits", "count", "accuracy", "best", "accuracy_held_out", "gain_interval_low"})
    CHECK_MESSAGE(contains(relations, std::string("\n  ") + column + " "), column);
  const std::string syntax = explain({"syntax"});
  CHECK(syntax.starts_with(relations + "\nstudy --measures syntax, table trees\n"));
  CHECK(syntax.find("\n  relation_accuracy ") > syntax.find("\nstudy --measures syntax\n"));
  CHECK(
      explain({"relations.accuracy"})
          .starts_with("relations.accuracy\n  where    study --measures syntax, table relations\n  range "));
  CHECK(contains(explain({"trees.accuracy"}), "share of annotated edges"));
  CHECK(contains(explain({"coreference.accuracy"}), "share of mentions"));
  CHECK(contains(explain({"distributions.q25"}), "\n  meaning  25 % quantile of the values of rows\n"));
  CHECK(contains(explain({"choices.seconds"}), "\n  meaning  expected wall time of the slowest shard\n"));
  CHECK(contains(explain({"inputs.id"}), "in JSON: id of the"));
  CHECK(explain({"heads.distance"})
            .starts_with("distance\n  where    analyze --include metrics, table heads; "));
  CHECK(explain({"roles.null"}).starts_with("null\n  where    study --measures roles\n"));
  CHECK(explain({"singular_values"}).starts_with("analyze --include weights, table singular_values\n"));
}

TEST_CASE("explain has a meaning for every key of every section") {
  for (const cli::Schema& schema : cli::schemas()) {
    const json document = json::parse(schema.text);
    for (const auto& [name, section] : document["properties"].items()) {
      if (!section.contains("items")) continue;
      json record = section["items"];
      if (record.contains("$ref"))
        record = document.at(json::json_pointer(record["$ref"].get<std::string>().substr(1)));
      if (!record.contains("properties")) continue;
      for (const auto& [key, property] : record["properties"].items())
        CHECK_NOTHROW((void)cli::explanation(std::string(name) + "." + std::string(key)));
    }
  }
}

TEST_CASE("explain has the score and the rule of each role") {
  for (const study::RoleRow& row : study::role_rows()) {
    CAPTURE(row.name);
    const std::string name = "roles." + std::string(row.name);
    const std::string text = explain({name});
    CHECK(text.starts_with(name + "\n  where    study --measures roles\n"));
    const std::string words = std::regex_replace(text, std::regex("\\s+"), " ");
    CHECK(contains(words, " meaning score: "));
    CHECK(contains(words, "; rule: " + study::rule_of(row) + " (docs/roles.md)"));
    CHECK(contains(explain({std::string(row.name)}), text));
  }
}

TEST_CASE("explain defines the columns of special, and relations.accuracy with its direction") {
  CHECK(contains(explain({"special.token"}), "empty in the rows of"));
  CHECK(contains(explain({"special.position"}), "0 in the rows of position 0"));
  CHECK(contains(explain({"relations.accuracy"}), "to_dependent: the reverse"));
}

TEST_CASE("no experiment defines a name by another definition") {
  for (const NamedDefinitions& group : textbook::definitions())
    for (const Definition& about : group.definitions)
      CHECK_MESSAGE(!about.meaning.starts_with("the same "), about.name);
  CHECK(contains(explain({"target_token"}), "the token whose logit"));
}

TEST_CASE("best_offset_share has no threshold, but names the score of the role") {
  const std::string text = explain({"best_offset_share"});
  CHECK_FALSE(contains(text, "0.9"));
  CHECK(contains(text, "roles.positional"));
}

TEST_CASE("explain begins with the results of study and analyze, in small letters") {
  CHECK(explain({"roles"}).starts_with("study --measures roles\n"));
  CHECK(explain({"rows"}).starts_with("rows\n  where    several tables\n"));
  const std::string rows = explain({"rows"});
  CHECK(contains(rows, "\n\nbench, table rows\n  stage "));
  CHECK(contains(rows, " what was timed"));
  CHECK(contains(explain({"attention_from"}), " the word of --from"));
}

TEST_CASE("explain puts the meaning of a long name on the next line") {
  const std::string lines = "\n  entropy_bits_variance\n" + std::string(23, ' ') + "of entropy_bits: ";
  CHECK(contains(explain({"metrics"}), lines));
}

TEST_CASE("explain lists the columns of a measure before the columns with its name") {
  const std::string text = explain({"pairs"});
  CHECK(text.starts_with("study --measures pairs\n  measure "));
  CHECK(contains(text, "\n  pairs.cka "));
  CHECK(contains(text, "\n\ndistance.pairs\n  where    study --measures distance\n"));
  CHECK(contains(explain({"metrics"}), "\n\nstudy --measures metrics, table heads\n  component "));
}

TEST_CASE("explain knows the columns of info") {
  CHECK(explain({"cache_bytes_per_token"})
            .starts_with("cache_bytes_per_token\n  where    info, table comparison\n  unit     bytes\n"));
  CHECK(explain({"sharing"}).starts_with("info, table sharing\n  component "));
  CHECK(explain({"apart"}).starts_with("info, table apart\n  name "));
  CHECK(explain({"tensors"}).starts_with("info, table tensors\n  name "));
  CHECK(explain({"layers"}).starts_with("info, table layers\n  component "));
}

TEST_CASE("explain lists all names in lines of 80 columns") {
  const std::string text = explain({});
  for (const std::string& line : lines_of(text)) CHECK_MESSAGE(line.size() <= 80, line);
  for (const char* part : {"several tables ", "\nanalyze --include metrics ", "\nstudy --measures pairs ",
                           " pairs.js_divergence,", " confidence,"})
    CHECK_MESSAGE(contains(text, part), part);
}

TEST_CASE("explain writes tables and JSON") {
  const RunResult result = run_attnctl({"explain", "pairs", "--format", "json"});
  REQUIRE(result.status == 0);
  const json document = json::parse(result.out);
  CHECK(schema_breaches(json::parse(cli::schema_text("definitions")), document) == Words{});
  REQUIRE(document["definitions"].size() >= 3);
  const json& first = document["definitions"][0];
  CHECK(first["where"] == "study --measures pairs");
  CHECK(first["name"] == "measure");
  CHECK(first["unit"].is_null());
  CHECK(first["null"].is_null());
  const RunResult csv = run_attnctl({"explain", "--format", "csv"});
  CHECK(csv.out.starts_with("where,name,unit,range,null,meaning,source\r\nseveral tables,component,"));
}

TEST_CASE("explain rejects an unknown name") {
  for (const Words& words : {Words{"explain", "confidnce"}, Words{"analyze", "--explain", "confidnce"}}) {
    const RunResult result = run_attnctl(words);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(result.err ==
          "attnctl: explain: unknown name \"confidnce\" (did you mean \"confidence\"?); run attnctl explain "
          "for a list of all names\n");
  }
  for (const char* name : {"no_such_nme", "_", ".", "count_"})
    CHECK(run_attnctl({"explain", name}).status == 2);
}

TEST_CASE("--explain prints the text of explain, with or without other arguments") {
  const std::string text = explain({"confidence"});
  for (const Words& words : {Words{"analyze"}, Words{"analyze", "no-such-model", "A text.", "-o", "x.npz"},
                             Words{"study"}, Words{"experiment", "scaling"}, Words{"tokenize"}}) {
    CAPTURE(words.front());
    Words given = words;
    given.insert(given.end(), {"--explain", "confidence"});
    const RunResult result = run_attnctl(given);
    CHECK(result.status == 0);
    CHECK(result.out == text);
  }
}

TEST_CASE("shells complete the names that explain knows") {
  const std::string script = run_attnctl({"completion", "bash"}).out;
  for (const char* option : {"explain/*", "analyze/--explain", "study/--explain"}) {
    CAPTURE(option);
    const std::size_t at = script.find(std::string("    ") + option + ") _attnctl_words '");
    REQUIRE(at != std::string::npos);
    const std::string line = script.substr(at, script.find('\n', at) - at);
    for (const char* name : {" confidence ", " js_divergence ", " pairs ", " pairs.cka "})
      CHECK_MESSAGE(contains(line, name), name);
  }
}

TEST_CASE("schema lists its names, and takes the name of a command") {
  CHECK(run_attnctl({"schema"}).out.starts_with("analysis\nattribution\nbench\n"));
  CHECK(run_attnctl({"schema", "analyze"}).out == run_attnctl({"schema", "analysis"}).out);
  CHECK(run_attnctl({"schema", "compare"}).out == run_attnctl({"schema", "comparison"}).out);
  CHECK(contains(run_attnctl({"schema", "analysys"}).err, "(did you mean \"analysis\"?)"));
}

TEST_CASE("shells complete presets and kinds of attention") {
  const std::string script = run_attnctl({"completion", "bash"}).out;
  CHECK(contains(script, "info/--preset) _attnctl_words '"));
  CHECK(contains(script, "kinds/--kinds) _attnctl_list 'full window: block: strided: linear'"));
}

/// Returns the columns of the CSV files in a folder as FILE:COLUMN.
std::set<std::string> columns_in(const std::filesystem::path& folder) {
  std::set<std::string> columns;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string header = lines_of(slurp(entry.path())).front();
    for (const std::string_view column : split(header, ','))
      columns.insert(entry.path().lexically_relative(folder).string() + ":" + std::string(column));
  }
  return columns;
}

TEST_CASE("explain knows every column of every table") {
  const TempDir folder;
  const auto write = [&](const std::string& name, const std::string& command) {
    const RunResult result =
        run_shell("attnctl " + command + " --quiet --format csv -o " + (folder.path() / name).string());
    CAPTURE(command);
    CHECK_MESSAGE(result.status == 0, result.err);
  };
  write("analyze",
        "analyze data/tiny-bert --input data/tiny-bert/sentences.jsonl --from 1 --to '[SEP]' --include "
        "metrics,patterns,scores,queries,keys,values,z,output,logits,weights,directions,circuits,subspaces,"
        "composition,token_circuits,map,rollout,flow,contributions,mixing,largest_value,sinks,activations "
        "--text 'A "
        "cat'");
  write("across", "weights data/tiny-llama --across-layers --include weights,subspaces,composition,map");
  write("bert", "study data/tiny-bert --input data/treebank.conllu --null-model 1 --null-shuffle 1");
  write("llama", "study data/tiny-llama --input data/tiny-llama/sentences.jsonl");
  write("compare.csv", "compare data/tiny-bert data/tiny-llama --input data/sentences.txt");
  write("info", "info data/tiny-llama --shapes --tensors --families");
  for (const std::string name :
       {"averaging", "diversity", "hull", "heads", "positions", "scaling", "kinds", "gradients", "distance"})
    write(name + ".csv", "experiment " + name);
  for (const std::string name : {"diversity", "positions", "scaling", "gradients", "distance"})
    write(name + "_of_model.csv", "experiment " + name + " --model data/tiny-llama");
  const std::set<std::string> columns = columns_in(folder.path());
  CHECK(columns.size() > 200);
  for (const std::string& column : columns) {
    CAPTURE(column);
    const std::size_t end = column.find(".csv:");
    const std::string name = column.substr(end + 5);
    CHECK_NOTHROW((void)cli::explanation(name));
    const std::size_t slash = column.find('/');  // FOLDER/TABLE.csv; a file without a folder is of one table
    if (slash != std::string::npos)
      CHECK_NOTHROW((void)cli::explanation(column.substr(slash + 1, end - slash - 1) + "." + name));
  }
}

TEST_CASE("explain has a meaning for every name") {
  const json definitions = json::parse(run_attnctl({"explain", "--format", "json"}).out)["definitions"];
  CHECK(definitions.size() > 150);
  for (const json& each : definitions) CHECK_MESSAGE(each["meaning"].get<std::string>() != "", each["name"]);
}

}  // namespace
}  // namespace attnctl::test
