// `attnctl series`: checkpoints that differ in a known way, restarts, and waiting for new checkpoints.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/dtype.hpp"
#include "cli/commands.hpp"
#include "support/json_schema.hpp"
#include "support/memory_checkpoint.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Words = std::vector<std::string>;

const std::string kLlama = ATTNCTL_SOURCE_DIR "/data/tiny-llama";
const std::string kCorpus = ATTNCTL_SOURCE_DIR "/data/treebank.conllu";

/// Writes FOLDER/run/step-N: tiny-llama, whose W_Q in layer 1 is multiplied by `scale`, so that 0 makes its
/// patterns uniform.
void write_checkpoint(const TempDir& folder, int step, float scale) {
  MemoryModel model = MemoryModel::read(kLlama);
  MemoryTensor& tensor = model.tensors.at("model.layers.1.self_attn.q_proj.weight");
  std::vector<float> values(tensor.bytes.size() / sizeof(std::uint16_t));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, tensor.bytes.data() + i * sizeof bits, sizeof bits);
    values[i] = scale * float_from_f16(bits);
  }
  tensor = floats(tensor.shape, values);
  const fs::path place = folder.path() / "run" / ("step-" + std::to_string(step));
  fs::create_directories(place);
  for (const char* const file : {"tokenizer.json", "tokenizer_config.json"})
    fs::copy_file(fs::path(kLlama) / file, place / file);
  model.write(place);
}

Words with_corpus(Words words, const std::string& measures = "metrics,roles") {
  words.insert(words.begin(), "series");
  for (const std::string& word : {std::string("--input"), kCorpus, std::string("--measures"), measures})
    words.push_back(word);
  return words;
}

json document_of(const Words& words) {
  const RunResult run = run_attnctl(words);
  REQUIRE_MESSAGE(run.status == 0, run.err);
  json document = json::parse(run.out);
  CHECK(schema_breaches(json::parse(cli::schema_text("series")), document) == Words{});
  return document;
}

TEST_CASE("series finds the step at which the heads of a layer change, and the roles that appear there") {
  const TempDir folder;
  for (const int step : {100, 200, 1000, 1100}) write_checkpoint(folder, step, step < 1000 ? 0 : 1);
  const std::string pattern = (folder.path() / "run/step-*").string();
  const json document = document_of(with_corpus({pattern, "--format", "json"}));
  std::vector<int> steps;
  for (const json& row : document["checkpoints"]) steps.push_back(row["step"]);
  CHECK(steps == std::vector{100, 200, 1000, 1100});  // by number, not by name
  std::size_t in_layer_1 = 0;
  for (const json& row : document["changes"]) {
    CHECK(row["layer"] != 0);  // the first layer is the same in all
    if (row["layer"] != 1 || row["column"] != "entropy") continue;
    ++in_layer_1;
    CHECK(row["from_step"] == 200);
    CHECK(row["to_step"] == 1000);
    CHECK(row["difference"].get<double>() < -0.3);
    CHECK(row["explained"] == 1);
  }
  CHECK(in_layer_1 == 4);
  const auto appears = [&](const char* head, const char* detail) {
    return std::ranges::count_if(document["role_steps"], [&](const json& row) {
      return row["name"] == head && row["role"] == "positional" && row["detail"] == detail &&
             row["first_step"] == 1000 && row["last_step"] == 1100 && row["checkpoints"] == 2;
    });
  };
  CHECK(appears("1.0", "-1") == 1);
  CHECK(appears("1.1", "-1") == 1);

  // The values are those of attnctl study.
  const RunResult study = run_attnctl({"study", (folder.path() / "run/step-200").string(), "--input", kCorpus,
                                       "--measures", "metrics,roles"});
  const json of_study = json::parse(study.out);
  std::size_t compared = 0;
  for (const json& row : document["series"]) {
    if (row["step"] != 200 || row["table"] != "heads" || row["column"] != "entropy") continue;
    for (const json& head : of_study["heads"])
      if (head["name"] == row["name"]) CHECK(head["entropy"] == row["value"]);
    ++compared;
  }
  CHECK(compared == 16);
  const std::string page = run_attnctl(with_corpus({pattern, "--format", "text"})).out;
  CHECK_MESSAGE(page.find("4 checkpoints: steps 100 to 1100") != std::string::npos, page);
  static const std::regex appeared(R"(
positional +-1 +1\.0 +1000 +1100 +2
)");
  CHECK_MESSAGE(std::regex_search(page, appeared), page);
}

TEST_CASE("series reads the studies of checkpoints: the training of tiny-llama") {
  const std::string pattern = ATTNCTL_SOURCE_DIR "/data/tiny-llama-training/*.state";
  const json document = document_of({"series", pattern, "--format", "json"});
  CHECK(document["checkpoints"].size() == 8);
  const auto first = [&](const char* head, const char* role) -> int {
    for (const json& row : document["role_steps"])
      if (row["name"] == head && row["role"] == role) return row["first_step"];
    return 0;
  };
  CHECK(first("1.0", "positional") == 200);  // the previous-token heads come first
  for (const char* const head : {"3.0", "3.1", "3.2", "3.3"})
    CHECK((first(head, "induction") >= 400 && first(head, "induction") <= 1000));
  struct Wrong {
    Words words;
    const char* part;
  };
  const std::vector<Wrong> wrong = {{{"series", pattern, kLlama}, "give only studies"},
                                    {{"series", pattern, "--input", kCorpus}, "without --input"},
                                    {{"series", pattern, "--plot", "probe.score=nothing", "--format", "svg"},
                                     "no row has all words after ="}};
  for (const Wrong& each : wrong) {
    const RunResult run = run_attnctl(each.words);
    CHECK(run.status == 2);
    CHECK_MESSAGE(run.err.find(each.part) != std::string::npos, run.err);
  }
  const RunResult induction =
      run_attnctl({"series", pattern, "--plot", "probe.score=induction", "--format", "svg"});
  CHECK(induction.out.find("induction, layer 3") != std::string::npos);
  CHECK(induction.out.find("previous, layer 1") == std::string::npos);
}

TEST_CASE("identical checkpoints give flat lines") {
  const json document = document_of(with_corpus({kLlama, kLlama, kLlama, "--format", "json"}));
  CHECK(document["changes"].empty());
  for (const json& row : document["role_steps"]) CHECK(row["checkpoints"] == 3);
  for (std::size_t i = 0; i + 2 < document["series"].size(); i += 3)
    for (std::size_t j = 1; j < 3; ++j) {
      CHECK(document["series"][i]["value"] == document["series"][i + j]["value"]);
      CHECK(document["series"][i + j]["step"] == j);
    }
  CHECK(run_attnctl(with_corpus({kLlama, kLlama, kLlama, "--format", "text"}))
            .out.find("No number of a head changes.") != std::string::npos);
}

TEST_CASE("a series that was interrupted goes on with --keep, and gives the same bytes") {
  const TempDir folder;
  for (const int step : {1, 2, 3}) write_checkpoint(folder, step, static_cast<float>(step));
  const std::string pattern = (folder.path() / "run/step-*").string();
  const std::string keep = (folder.path() / "kept").string();
  const Words plain = with_corpus({pattern, "--format", "json"});
  const RunResult whole = run_attnctl(plain);
  REQUIRE(whole.status == 0);
  Words kept = plain;
  kept.insert(kept.end(), {"--keep", keep});
  for (const int milliseconds : {80, 160, 240}) {
    const RunResult killed =
        run_attnctl(kept, {.signal = LateSignal{SIGINT, std::chrono::milliseconds(milliseconds)}});
    CHECK((killed.status == 130 || killed.status == 0));
  }
  const RunResult done = run_attnctl(kept);
  CHECK(done.out == whole.out);
  CHECK(fs::exists(fs::path(keep) / "step-3.state"));
  // A finished study is read: without the weights of another model, its state must not fit.
  fs::remove_all(folder.path() / "run/step-2");
  write_checkpoint(folder, 2, 7);
  const RunResult other = run_attnctl(kept);
  CHECK(other.status == 3);
  CHECK_MESSAGE(other.err.find("step-2.state") != std::string::npos, other.err);
}

TEST_CASE("--watch writes the series again for each new checkpoint until it is interrupted") {
  const TempDir folder;
  write_checkpoint(folder, 1, 1);
  write_checkpoint(folder, 2, 2);
  const std::string out = (folder.path() / "out.json").string();
  const Words words = with_corpus({"--watch", (folder.path() / "run").string(), "--watch-every", "0.1",
                                   "--keep", (folder.path() / "kept").string(), "-o", out, "--quiet"},
                                  "metrics");
  std::thread trainer([&] {
    for (int i = 0; i < 200 && !fs::exists(out); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    write_checkpoint(folder, 3, 3);
  });
  // A second signal would end the program at once.
  const RunResult run = run_attnctl(words, {.signal = LateSignal{SIGINT, std::chrono::seconds(4)}});
  trainer.join();
  CHECK(run.status == 130);
  const json document = json::parse(slurp(out));
  CHECK(document["checkpoints"].size() == 3);
}

TEST_CASE("series draws lines and maps, and says what it needs") {
  const TempDir folder;
  for (const int step : {1, 2, 3}) write_checkpoint(folder, step, static_cast<float>(step));
  const std::string pattern = (folder.path() / "run/step-*").string();
  const RunResult lines = run_attnctl(with_corpus({pattern, "--plot", "entropy", "--format", "svg"}));
  REQUIRE_MESSAGE(lines.status == 0, lines.err);
  CHECK(lines.out.find("layer 1") != std::string::npos);
  CHECK(lines.out.find("1.3") != std::string::npos);
  const RunResult map = run_attnctl(with_corpus({pattern, "--map", "entropy", "--format", "svg"}));
  REQUIRE_MESSAGE(map.status == 0, map.err);
  CHECK(map.out.find("Mean of entropy over the Heads of a Layer") != std::string::npos);
  struct Wrong {
    Words words;
    int status;
    const char* part;
  };
  const std::vector<Wrong> wrong = {
      {with_corpus({pattern, "--format", "svg"}), 2, "give --plot COLUMN or --map COLUMN"},
      {with_corpus({pattern, "--plot", "entropi", "--format", "svg"}), 2, "did you mean"},
      {with_corpus({}), 2, "need at least one MODEL, or --watch DIR"},
      {with_corpus({"--watch", folder.path().string()}), 2, "also needs --keep DIR"},
      {with_corpus({"--watch", (folder.path() / "none").string(), "--keep", "k", "-o", "o.json"}), 4,
       "--watch "},
      {{"series", kLlama, "--input", "-"}, 2, "series reads the corpus once for each checkpoint"},
      {with_corpus({kLlama, kLlama, "--keep", folder.path().string()}), 2, "two checkpoints have the name"},
      {with_corpus({kLlama}, "pairs"), 3, "no numbers of single heads"},
  };
  for (const Wrong& each : wrong) {
    const RunResult run = run_attnctl(each.words);
    CAPTURE(each.part);
    CHECK(run.status == each.status);
    CHECK_MESSAGE(run.err.find(each.part) != std::string::npos, run.err);
  }
}

}  // namespace
}  // namespace attnctl::test
