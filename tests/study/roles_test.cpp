#include <algorithm>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "report/text.hpp"
#include "study/measure.hpp"
#include "study/run_study.hpp"
#include "study/state/study_state.hpp"
#include "support/planted_model.hpp"
#include "support/refusal.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {

using namespace study;

namespace {

using Words = std::vector<std::string>;

const std::string kTreebank = ATTNCTL_SOURCE_DIR "/data/treebank.conllu";

/// The corpus and settings of a study.
struct Asked {
  std::uint64_t seed = 0;
  std::size_t shuffles = 0;
  std::string text = PlantedModel::corpus(seed, 30);  // JSON Lines
  std::optional<FileVersion> version = {};            // of the corpus
};

/// Returns the roles ("0.0 positional -1", ...) of a model on a corpus of the planted model's tokens.
std::vector<std::string> roles_of(const MemoryModel& memory, const Asked& asked) {
  const model::Model model = memory.bound();
  const TempDir folder;
  const tokenizer::Vocabulary vocabulary = PlantedModel::vocabulary();
  input::TextEncoder encoder({}, "planted");
  StudySettings settings{.measures = parse_measures("probe,rare,roles"),
                         .selection = forward::Selection::all(model.config()),
                         .corpus = {},
                         .seed = asked.seed,
                         .null_shuffles = asked.shuffles,
                         .frequencies = {},
                         .ablation = {}};
  settings.corpus.files = {
      {folder.write("corpus.jsonl", asked.text), input::InputFormat::jsonl, asked.version}};
  settings.corpus.probe.sequences = 10;
  settings.corpus.probe.seed = asked.seed;
  StudyState state(plain_header(settings, model));
  Pool pool(1);
  Progress progress(ProgressMode::never, true);
  const TokenFrequencies frequencies = PlantedModel::frequencies();
  const StudyInput input{settings, model, vocabulary, encoder};
  run_study({.input = input, .pool = pool, .progress = progress, .frequencies = &frequencies}, state);
  std::vector<std::string> found;
  for (const HeadRole& role : decide_roles(state.finish(pool).evidence)) {
    std::string line = state.header().shape.heads[role.evidence.head].name + " ";
    line += std::string(role.row->name) + (role.evidence.detail.empty() ? "" : " " + role.evidence.detail);
    found.push_back(line);
  }
  return found;
}

TEST_CASE("a study of a corpus that was changed is an error") {
  const PlantedModel planted = PlantedModel::make(0);
  check_refusal([&] { (void)roles_of(planted.model, {.version = FileVersion{}}); }, Status::bad_input,
                {"corpus.jsonl: changed while it was read; run again"});
}

TEST_CASE("constructed heads have exactly the roles that they were built for") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const PlantedModel planted = PlantedModel::make(seed);
    std::vector<std::string> wanted;
    for (const auto& [head, role] : planted.roles) wanted.push_back(head + " " + role);
    CHECK(roles_of(planted.model, {seed}) == wanted);
    CHECK(roles_of(planted.model, {seed, 1}) == wanted);
  }
}

TEST_CASE("a head that attends to the position of rare tokens is not a rare-token head with --null-shuffle") {
  const PlantedModel planted = PlantedModel::make(0);
  // The rarest token is the first token of each sentence. Head 0.2 attends to the first position.
  std::string text;
  for (int line = 0; line < 20; ++line) {
    text += "{\"ids\": [31";
    for (int i = 0; i < 12; ++i) text += ", " + std::to_string((5 * line + 7 * i + line * i) % 29);
    text += ", 33]}\n";
  }
  const auto rare = [&](std::size_t shuffles) {
    std::vector<std::string> found = roles_of(planted.model, {0, shuffles, text});
    std::erase_if(found, [](const std::string& line) { return line.find("rare") == std::string::npos; });
    return found;
  };
  CHECK(rare(0) == Words{"0.2 rare-token", "0.4 rare-token"});
  CHECK(rare(3) == Words{"0.4 rare-token"});
}

TEST_CASE("heads of random weights have no roles except broad and local") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    for (const std::string& found : roles_of(PlantedModel::random(seed), {seed})) {
      CAPTURE(found);
      CHECK((found.ends_with(" broad") || found.ends_with(" local")));
    }
  }
}

TEST_CASE("the heads of tiny-llama have the roles in data/README.md") {
  const std::string model = ATTNCTL_SOURCE_DIR "/data/tiny-llama";
  const RunResult result =
      run_attnctl({"study", model, "--input", kTreebank, "--measures", "probe,roles", "--format", "json"});
  REQUIRE(result.status == 0);
  std::set<std::string> induction, previous, duplicate, sink, all;
  const nlohmann::json document = nlohmann::json::parse(result.out);
  for (const nlohmann::json& role : document.at("roles")) {
    const std::string head = role["name"];
    all.insert(head);
    if (role["role"] == "induction") induction.insert(head);
    if (role["role"] == "duplicate-token") duplicate.insert(head);
    if (role["role"] == "positional" && role["detail"] == "-1") previous.insert(head);
    if (role["role"] == "sink") sink.insert(head);
  }
  using Heads = std::set<std::string>;
  CHECK(induction == Heads{"2.0", "3.0", "3.1", "3.2", "3.3"});
  CHECK(previous == Heads{"1.0", "1.1", "2.2", "2.3"});
  CHECK(duplicate.empty());
  CHECK(sink == Heads{"3.2"});
  CHECK(all.size() == 16);  // including heads without a role
}

TEST_CASE("the picture of roles shows the letters of the grid") {
  const std::string model = ATTNCTL_SOURCE_DIR "/data/tiny-llama";
  const Words study = {"study", model, "--input", kTreebank, "--format", "svg"};
  const RunResult result = run_attnctl(study);
  REQUIRE(result.status == 0);
  for (const char* const letters :
       {">IS</text>", ">P</text>", ">.</text>", "I</text>", ">no role (grey)</text>",
        "data/tiny-llama</text>", ">induction: random sequence, repeated once: mean weight"}) {
    CAPTURE(letters);
    CHECK(std::regex_replace(result.out, std::regex("</?tspan[^>]*>"), "").find(letters) !=
          std::string::npos);
  }
  const auto colours_of = [&](const std::string& pattern) {
    std::set<std::string> colours;
    const std::regex letter(pattern);
    for (std::sregex_iterator it(result.out.begin(), result.out.end(), letter), end; it != end; ++it)
      colours.insert((*it)[1]);
    return colours;
  };
  CHECK(result.out.find(">Layer<") != std::string::npos);
  CHECK(result.out.find(">Head<") != std::string::npos);
  const std::set<std::string> induction = colours_of("<tspan fill=\"([^\"]*)\">I<");
  CHECK(induction.size() == 1);
  CHECK(colours_of("<g fill=\"([^\"]*)\"><text[^>]*>I<") == induction);  // the legend
  CHECK(colours_of("<tspan fill=\"([^\"]*)\">S<") != induction);
  Words without = study;
  without.insert(without.end(), {"--measures", "metrics"});
  const RunResult refused = run_attnctl(without);
  CHECK(refused.status == 2);
  CHECK(refused.err.find("give --plot entropy") != std::string::npos);
  without.back() = "positional";
  const RunResult other = run_attnctl(without);
  CHECK_MESSAGE(other.err.find("give --plot best_offset_share or another") != std::string::npos, other.err);
}

/// Returns a rule as a table row of docs/roles.md.
std::string documented(const RoleRow& row) {
  std::ostringstream line;
  for (const MeasureRow& measure : measure_catalogue()) {
    for (const Definition& metric : measure.definitions) {
      if (metric.name != row.metric) continue;
      line << "| `" << row.name << "` | " << row.letter << " | `" << measure.name << "` | " << metric.meaning
           << " | " << metric.null << " | " << rule_of(row) << " | " << metric.source << " |";
    }
  }
  return line.str();
}

TEST_CASE("docs/roles.md lists all rules") {
  std::istringstream page(slurp(ATTNCTL_SOURCE_DIR "/docs/roles.md"));
  std::vector<std::string> shown;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| `") && !line.starts_with("| `--")) shown.push_back(line);
  }
  std::vector<std::string> wanted;
  for (const RoleRow& row : role_rows()) wanted.push_back(documented(row));
  CHECK(shown == wanted);
}

TEST_CASE("a rule needs its cases, its score, its margin and an interval above the null") {
  const auto row_of = [](std::string_view name) {
    return *std::ranges::find(role_rows(), name, &RoleRow::name);
  };
  struct Case {
    const char* role;
    double score, null, error;
    std::uint64_t count, clusters;
    bool met;
  };
  const std::vector<Case> cases = {
      {"induction", 0.5, 0.1, 0.05, 1000, 10, true},
      {"induction", 0.5, 0.1, 0.05, 1000, 9, false},     // too few sequences
      {"induction", 0.29, 0.1, 0.04, 1000, 10, false},   // score below 0.3
      {"induction", 0.5, 0.1, 0.4, 1000, 10, false},     // interval includes the null
      {"induction", 1, 0.9, 0, 10, 10, false},           // equal observations, but few
      {"induction", 0.5, 0.5, 0, 1'000'000, 10, false},  // score equal to the null
      {"rare-token", 0.7, 0.65, 0.02, 1000, 10, false},  // margin too small
      {"syntactic", 0.45, 0.3, 0.02, 1000, 10, true},    // the rule has no smallest score
      {"syntactic", 0.9, 0.3, 0.02, 99, 10, false},      // too few word pairs
      {"syntactic", 0.39, 0.3, 0.02, 1000, 10, false},   // margin below 0.1
      {"broad", 0.97, 1, 0.01, 1000, 10, true},          // may be below the null
      {"broad", 0.8, 1, 0.1, 1000, 10, false},
  };
  for (const Case& each : cases) {
    CAPTURE(each.role);
    CAPTURE(each.score);
    const RoleRow row = row_of(each.role);
    RoleEvidence evidence{0, row.name, "", each.score, each.null, std::nullopt, each.count};
    CHECK_FALSE(meets(row, evidence));  // no estimate: only one sentence
    evidence.estimate = ShareEstimate{each.score, each.error, each.count, each.clusters};
    CHECK(meets(row, evidence) == each.met);
    evidence.excess = ShareEstimate{each.score - each.null, 0.3, each.count, each.clusters};
    CHECK(meets(row, evidence) == (each.met && !row.above_null));  // the difference may be below 0
  }
}

TEST_CASE("intervals of a role are corrected for its tests") {
  const ShareEstimate close{0.6, 0.1, 1000, 50};  // 0.6 - 2.01 * 0.1 > 0.38; corrected for 100 tests: 0.23
  std::vector<RoleEvidence> evidence = {{0, "sink", "", 0.6, 0.38, close, 1000}};
  CHECK(decide_roles(evidence).size() == 1);
  CHECK(decide_roles(evidence)[0].tests == 1);
  evidence.push_back({1, "local", "", 0.6, 0.38, close, 1000});
  CHECK(decide_roles(evidence).size() == 2);  // other roles do not count
  for (std::size_t head = 1; head < 100; ++head)
    evidence.push_back({head, "sink", "", 0.1, 0.38, ShareEstimate{0.1, 0.1, 9, 9}, 9});
  CHECK(decide_roles(evidence).size() == 2);  // nor do tests with too few cases
  for (RoleEvidence& each : evidence) each.estimate->clusters = 50;
  CHECK(decide_roles(evidence).size() == 1);
  evidence.resize(1);
  evidence[0].choices = 100;
  CHECK(decide_roles(evidence).empty());
}

TEST_CASE("the text says which roles have too few cases, and suggests random models") {
  const std::string model = ATTNCTL_SOURCE_DIR "/data/tiny-llama";
  const auto text = [&](const Words& more) {
    Words words = {"study", model, "--input", model + "/sentences.jsonl", "--measures", "probe,roles"};
    words.insert(words.end(), more.begin(), more.end());
    return run_attnctl(words).out;
  };
  const std::string page = text({"--format", "text"});
  CHECK(page.find("Roles (I induction, . no role) by layer and head\n") != std::string::npos);
  CHECK(page.find("Too few cases for positional, sink, local, broad (need 10 sentences)") !=
        std::string::npos);
  CHECK(page.find("by role (I and D: in repeated random sequences; others: in the corpus)\n") !=
        std::string::npos);
  CHECK(page.find("--null-model 5") != std::string::npos);
  CHECK(page.find("--null-shuffle") == std::string::npos);  // no role of this page uses shuffled tokens
  CHECK(text({"--format", "text", "--null-model", "1"}).find("--null-model 5") == std::string::npos);
  const nlohmann::json roles = nlohmann::json::parse(text({"--format", "json"}))["roles"];
  CHECK(roles[0]["rule"] ==
        "none of induction, duplicate-token; fewer than 10 sentences: positional, sink, "
        "local, broad not tested");
  CHECK(roles[15]["rule"] ==
        "at least 10 sequences; score >= 0.3; interval above the null, corrected for 16 "
        "tests");
}

TEST_CASE("evidence must exceed the null by more than the best random head does") {
  const ShareEstimate sure{0.7, 0.01, 1000, 50};
  std::vector<RoleEvidence> evidence = {{0, "sink", "", 0.7, 0.2, sure, 9, {}},
                                        {0, "induction", "", 0.7, 0.1, sure, 9, {}},
                                        {0, "broad", "", 0.95, 1, sure, 9, {}}};
  CHECK(decide_roles(evidence).size() == 3);
  set_random(evidence, {{3, "sink", "", 0.5, 0.3, sure, 9, {}},
                        {1, "sink", "", 0.9, 0.1, sure, 9, {}},  // largest difference from the null: 0.8
                        {2, "sink", "", std::nullopt, 0.3, std::nullopt, 0, {}},
                        {4, "sink", "", 1, 0.1, ShareEstimate{1, 0, 9, 9}, 9},  // too few sentences
                        {1, "induction", "", 0.15, 0.1, sure, 9, {}},
                        {1, "broad", "", 0.99, 1, sure, 9, {}}});
  CHECK(*evidence[0].random == doctest::Approx(1.0));
  CHECK(*evidence[1].random == doctest::Approx(0.15));
  const std::vector<HeadRole> roles = decide_roles(evidence);
  REQUIRE(roles.size() == 2);
  CHECK(roles[0].row->name == "induction");
  CHECK(roles[1].row->name == "broad");  // needs to exceed neither its null nor random heads
}

TEST_CASE(
    "results with --null-model do not depend on threads or shards, and random models have no induction "
    "heads") {
  const TempDir folder;
  const std::string model = ATTNCTL_SOURCE_DIR "/data/tiny-llama";
  const auto run = [&](const Words& more) {
    Words words = {"study", model,        "--input",     model + "/sentences.jsonl", "--null-model",
                   "2",     "--measures", "probe,roles", "--batch-tokens",           "10"};
    words.insert(words.end(), more.begin(), more.end());
    return run_attnctl(words);
  };
  const auto path = [&](const std::string& name) { return (folder.path() / name).string(); };
  const RunResult whole = run({"--format", "json", "--threads", "1"});
  REQUIRE(whole.status == 0);
  CHECK(run({"--format", "json", "--threads", "2"}).out == whole.out);
  Words merge = {"merge"};
  for (const char* const shard : {"3/3", "1/3", "2/3"}) {
    merge.push_back(path(std::string(shard, 1)));
    REQUIRE(run({"--shard", shard, "--state", merge.back()}).status == 0);
  }
  merge.insert(merge.end(), {"--format", "json"});
  CHECK(run_attnctl(merge).out == whole.out);
  CHECK(run({"--format", "json", "--seed", "1"}).out != whole.out);
  std::size_t induction = 0;
  const nlohmann::json document = nlohmann::json::parse(whole.out);
  for (const nlohmann::json& role : document.at("roles")) {
    if (role["role"] != "induction") continue;
    ++induction;
    CHECK(role["random"].get<double>() < 0.3);
    CHECK(role["random"].get<double>() > role["null"].get<double>() - 0.05);
  }
  CHECK(induction == 5);
}

TEST_CASE("the text shows random models only for roles whose rules use them") {
  const study::StudyShape shape{.heads = {{.id = {0, 0}, .name = "0.0", .component = {}}}};
  study::StudyResults results;
  const ShareEstimate sure{0.95, 0.01, 1000, 50};
  results.evidence = {{0, "sink", "", 0.95, 0.25, sure, 9, {}, 1, 0.375},
                      {0, "broad", "", 0.95, 1, sure, 9, {}, 1, 0.995}};
  study::add_roles(results, shape);
  const std::string page = report::text_page(results.text, {});
  CHECK_MESSAGE(page.find(" 0.950  0.250         -   0.375 ") != std::string::npos, page);
  CHECK_MESSAGE(page.find(" 0.950  1.000         -       - ") != std::string::npos, page);
}

TEST_CASE("the text suggests --null-shuffle if a role uses shuffled tokens") {
  const study::StudyShape shape{.heads = {{.id = {0, 0}, .name = "0.0", .component = {}}}};
  const auto page = [&](std::optional<double> shuffled) {
    study::StudyResults results;
    const ShareEstimate sure{0.95, 0.01, 1000, 50};
    results.evidence = {{0, "rare-token", "", 0.95, 0.25, sure, 9, {}, 1, 0.375}};
    results.evidence[0].shuffled = shuffled;
    study::add_roles(results, shape);
    return report::text_page(results.text, {});
  };
  CHECK(page({}).find("Hint: run the study with --null-shuffle 1 to compare") != std::string::npos);
  CHECK(page(0.3).find("Hint") == std::string::npos);
  CHECK(page(0.3).find("no role") == std::string::npos);  // each head has a role
}

TEST_CASE("a head that is local and positional is only called positional") {
  const ShareEstimate sure{0.97, 0.01, 1000, 50};
  const std::vector<HeadRole> roles = decide_roles({{1, "local", "", 0.97, 0.2, sure, 9, {}},
                                                    {1, "positional", "-1", 0.97, 0.2, sure, 9, {}},
                                                    {0, "local", "", 0.97, 0.2, sure, 9, {}}});
  REQUIRE(roles.size() == 2);
  CHECK((roles[0].evidence.head == 0 && roles[0].row->name == "local"));
  CHECK((roles[1].evidence.head == 1 && roles[1].row->name == "positional"));
  CHECK_THROWS_AS((void)decide_roles({{0, "unheard of", "", 1, 0, sure, 9, {}}}), std::logic_error);
}

}  // namespace
}  // namespace attnctl::test
