#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "support/golden.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

// attnctl ablate, patch and attribute with encoder-decoder models.
namespace attnctl::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Words = std::vector<std::string>;

const fs::path kGoldens = ATTNCTL_SOURCE_DIR "/tests/golden";
const Words kModels = {"t5", "t5-own-head", "bart", "mbart", "marian", "pegasus"};
const Words kComponents = {"enc", "dec", "cross"};

std::string list_of(const std::vector<std::int64_t>& ids) {
  return fmt::format("{}", fmt::join(ids, ","));
}

json document_of(const Words& words, const std::string& schema) {
  const RunResult run = run_attnctl(words);
  REQUIRE_MESSAGE(run.status == 0, run.err);
  json document = json::parse(run.out);
  CHECK(schema_breaches(json::parse(cli::schema_text(schema)), document) == Words{});
  return document;
}

json ablation(const std::string& model, const fs::path& corpus, const Words& more) {
  Words words = {"ablate", model, "--input", corpus.string(), "--format", "json", "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return document_of(words, "study");
}

/// Returns a line of a .jsonl file with the ids of a golden.
std::string json_line(const Golden& golden, const std::string& prefix = "") {
  return json{{"ids", golden.integers(prefix + "ids")},
              {"target_ids", golden.integers(prefix + "target_ids")}}
             .dump() +
         "\n";
}

/// Returns the numbers of the records of one component, in their order.
std::vector<double> numbers_of(const json& records, const std::string& component, const std::string& column,
                               const std::string& part = "") {
  std::vector<double> numbers;
  for (const json& record : records) {
    if (record["component"] != component || (!part.empty() && record["part"] != part)) continue;
    numbers.push_back(record[column].is_null() ? std::nan("") : record[column].get<double>());
  }
  return numbers;
}

/// Numbers of attnctl and of transformers.
struct Compared {
  double largest = 0, worst = 0;

  /// `from` is subtracted from the wanted numbers to get the size of an effect.
  void add(const std::vector<double>& got, const std::vector<double>& want, double from = 0) {
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::abs(want[i] - from));
      if (!(std::abs(got[i] - want[i]) <= worst)) worst = std::abs(got[i] - want[i]);
    }
  }
  void check() const {
    CHECK(largest > 0);
    CHECK(worst <= 1e-4 * largest);
  }
};

/// Writes a copy of a golden model with a vocabulary of 37 tokens: its own words, then "w8", "w9", ...
std::string with_vocabulary(const TempDir& folder, const std::string& model, const Words& first) {
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy_file(kGoldens / model / file, folder.path() / file);
  std::string vocabulary;
  for (std::size_t i = 0; i < 37; ++i)
    vocabulary += (i < first.size() ? first[i] : fmt::format("w{}", i)) + "\n";
  folder.write("vocab.txt", vocabulary);
  return folder.path().string();
}

const Words kBertTokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat"};

}  // namespace

TEST_CASE("ablate removes each head of an encoder, a decoder and cross-attention as PyTorch does") {
  for (const std::string& name : kModels) {
    CAPTURE(name);
    const Golden golden(kGoldens / "interventions" / (name + ".npz"));
    const TempDir folder;
    const fs::path corpus = folder.write("corpus.jsonl", json_line(golden));
    const fs::path other = folder.write("other.jsonl", json_line(golden, "other_"));
    const std::string model = (kGoldens / name).string();
    for (const std::string kind : {"zero", "mean", "resample"}) {
      CAPTURE(kind);
      Words more = {"--replace", kind};
      if (kind == "resample") more.insert(more.end(), {"--mean-from", other.string()});
      const json document = ablation(model, corpus, more);
      const json& records = document["ablation"];
      CHECK(records.size() == 12);
      CHECK(records[0]["queries"] == 3);
      CHECK(records[0]["loss"].get<double>() ==
            doctest::Approx(golden.array("loss").values[0]).epsilon(1e-5));
      Compared losses, divergences;
      for (const std::string& component : kComponents) {
        losses.add(numbers_of(records, component, "loss_change"),
                   golden.array(fmt::format("{}_loss_{}", kind, component)).values);
        divergences.add(numbers_of(records, component, "divergence"),
                        golden.array(fmt::format("{}_kl_{}", kind, component)).values);
      }
      losses.check();
      divergences.check();
      for (const json& record : records) CHECK(record["estimate"].is_number());
      // Heads of an encoder reach the logits only through the decoder. BART and Marian have norms after sums.
      const bool direct = name != "bart" && name != "marian";
      for (const double value : numbers_of(records, "enc", "direct_change"))
        CHECK((direct ? value == 0 : std::isnan(value)));
      for (const double value : numbers_of(records, "cross", "direct_change"))
        CHECK((direct ? std::abs(value) > 0 : std::isnan(value)));
    }
  }
}

TEST_CASE("ablate removes layers, pairs, MLPs and all heads of encoder-decoder models as PyTorch does") {
  for (const std::string& name : kModels) {
    CAPTURE(name);
    const Golden golden(kGoldens / "patches" / (name + ".npz"));
    const Golden mlps(kGoldens / "interventions" / (name + ".npz"));
    const TempDir folder;
    const fs::path corpus = folder.write("corpus.jsonl", json_line(golden));
    const json document =
        ablation((kGoldens / name).string(), corpus,
                 {"--replace", "zero", "--sets", "head,layer,mlp,pair", "--null-sets", "0"});
    Compared losses;
    const auto change = [&](const std::string& set) {
      for (const json& record : document["ablation"])
        if (record["set"] == set) return record["loss_change"].get<double>();
      FAIL("no set " << set);
      return 0.0;
    };
    losses.add({change("layer enc.0"), change("layer enc.1"), change("layer dec.0"), change("layer cross.0")},
               golden.array("without_layer").values);
    losses.add({change("enc.0.0+cross.0.1")}, golden.array("without_pair").values);
    losses.add({change("mlp enc.0"), change("mlp enc.1")}, mlps.array("mlp_loss_enc").values);
    losses.add({change("mlp cross.0")}, mlps.array("mlp_loss_cross").values);
    const fs::path heads = folder.write("heads.json", document.dump());
    const json kept = ablation((kGoldens / name).string(), corpus,
                               {"--replace", "zero", "--sets", "keep", "--order",
                                heads.string() + ":loss_change", "--steps", "2", "--null-sets", "0"});
    CHECK(kept["kept"].size() == 3);
    losses.add({kept["ablation"][0]["loss_change"].get<double>()}, golden.array("without_all").values);
    losses.check();
  }
}

TEST_CASE("patch puts the z, the pattern and the values of heads of all components in as PyTorch does") {
  for (const std::string& name : kModels) {
    const Golden golden(kGoldens / "patches" / (name + ".npz"));
    const TempDir folder;
    const std::string model = with_vocabulary(folder, name, {});
    for (const std::string runs : {"same", "own"}) {
      CAPTURE(name);
      CAPTURE(runs);
      const auto number = [&](const std::string& array) {
        return golden.array(fmt::format("{}_{}", runs, array)).values[0];
      };
      const auto token = [&](const std::string& array) { return fmt::format("w{}", number(array)); };
      Words words = {"patch",         model,
                     "--clean-ids",   list_of(golden.integers("ids")),
                     "--corrupt-ids", list_of(golden.integers("other_ids")),
                     "--target-ids",  list_of(golden.integers("target_ids")),
                     "--answer",      token("answer"),
                     "--wrong",       token("wrong"),
                     "--parts",       "z,pattern,value",
                     "--format",      "json"};
      if (runs == "own")
        words.insert(words.end(), {"--corrupt-target-ids", list_of(golden.integers("other_target_ids"))});
      const json document = document_of(words, "patch");
      const double corrupt = number("corrupt");
      CHECK(document["clean"]["metric"].get<double>() == doctest::Approx(number("clean")).epsilon(1e-5));
      CHECK(document["corrupt"]["metric"].get<double>() == doctest::Approx(corrupt).epsilon(1e-5));
      CHECK(document["query"] == golden.integers("target_ids").size() - 1);
      for (const std::string part : {"z", "pattern", "value"}) {
        CAPTURE(part);
        Compared metrics;
        for (const std::string& component : kComponents)
          metrics.add(numbers_of(document["patches"], component, "metric", part),
                      golden.array(fmt::format("{}_{}_{}", runs, part, component)).values, corrupt);
        metrics.check();
      }
    }
  }
}

TEST_CASE(
    "patches of single positions have the positions of the input in the encoder, and of the target "
    "elsewhere") {
  const json document =
      document_of({"patch", (kGoldens / "bart").string(), "--clean-ids", "5,9,12,7,3", "--corrupt-ids",
                   "5,9,13,7,3", "--target-ids", "2,7,9", "--by-position", "--format", "json"},
                  "patch");
  CHECK(numbers_of(document["patches"], "enc", "effect").size() == 6 * (1 + 5));
  CHECK(numbers_of(document["patches"], "dec", "effect").size() == 3 * (1 + 3));
  CHECK(numbers_of(document["patches"], "cross", "effect").size() == 3 * (1 + 3));
  CHECK(document["clean"]["target_ids"] == json{2, 7, 9});
  CHECK(document["corrupt"]["target_ids"] == json{2, 7, 9});
  // The decoder's first layer sees only the target, which is the same in both runs.
  for (const double effect : numbers_of(document["patches"], "dec", "effect")) CHECK(effect == 0);
}

TEST_CASE("patch follows a path to each input of the later head that reads what the first one writes") {
  const json document = document_of(
      {"patch", (kGoldens / "t5-old").string(), "--clean-ids", "5,9,12,7,3", "--corrupt-ids", "5,9,13,7,3",
       "--target-ids", "2,7,9", "--format", "json", "--path", "enc.0.0:enc.1.1", "--path",
       "enc.0.0:cross.1.0", "--path", "cross.0.0:cross.1.1", "--path", "cross.0.0:dec.1.0"},
      "patch");
  Words found;
  for (const json& row : document["paths"]) {
    found.push_back(row["from"].get<std::string>() + " " + row["to"].get<std::string>() + " " +
                    row["via"].get<std::string>());
    CHECK_MESSAGE(row["change"] != 0, found.back());
  }
  CHECK(found == Words{"enc.0.0 enc.1.1 query", "enc.0.0 enc.1.1 key", "enc.0.0 enc.1.1 value",
                       "enc.0.0 cross.1.0 key", "enc.0.0 cross.1.0 value", "cross.0.0 cross.1.1 query",
                       "cross.0.0 dec.1.0 query", "cross.0.0 dec.1.0 key", "cross.0.0 dec.1.0 value"});
}

TEST_CASE("attribute writes a logit of a decoder as a sum over its heads, with the parts of PyTorch") {
  for (const std::string& name : kModels) {
    CAPTURE(name);
    const Golden golden(kGoldens / "patches" / (name + ".npz"));
    const TempDir folder;
    const std::string model = with_vocabulary(folder, name, {});
    const Words input = {"attribute",    model,
                         "--text-ids",   list_of(golden.integers("ids")),
                         "--target-ids", list_of(golden.integers("target_ids")),
                         "--format",     "json"};
    const auto with = [&](Words more) {
      more.insert(more.begin(), input.begin(), input.end());
      return more;
    };
    const auto token = [&](const std::string& array) {
      return fmt::format("w{}", golden.array("same_" + array).values[0]);
    };
    const json document =
        document_of(with({"--token", token("answer"), "--token", token("wrong")}), "attribution");
    double difference = 0, largest = 0;
    std::vector<json> of_answer;
    for (const json& part : document["logits"]) {
      const double value = part["contribution"];
      const bool answer = part["token"] == token("answer");
      difference += answer ? value : -value;
      largest = std::max(largest, std::abs(value));
      if (answer) of_answer.push_back(part);
    }
    CHECK(std::abs(difference - golden.array("same_clean").values[0]) <= 1e-5 * largest);
    CHECK(numbers_of(of_answer, "enc", "contribution").empty());
    for (const std::string component : {"dec", "cross"}) {
      const std::vector<double> parts = numbers_of(of_answer, component, "contribution");
      CHECK(parts.size() == 3);
      if (!golden.has("direct_" + component)) continue;  // norms come after the sums
      Compared direct;
      direct.add(parts, golden.array("direct_" + component).values);
      direct.check();
    }
    // By default, the most probable token at the last position of the target.
    CHECK(document_of(input, "attribution")["logits"] == json(of_answer));
  }
}

TEST_CASE("the text of a target begins with the start token, and the prediction is that after the text") {
  const TempDir folder;
  const std::string model = with_vocabulary(folder, "bart", kBertTokens);
  const json patched =
      document_of({"patch", model, "--clean", "the cat sat", "--corrupt", "the cat cat", "--target-text",
                   "cat", "--answer", "w8", "--wrong", "w9", "--format", "json"},
                  "patch");
  CHECK(patched["clean"]["target_ids"] == json{2, 2, 6, 3});
  CHECK(patched["clean"]["target_text"] == "cat");
  CHECK(patched["query"] == 2);  // the tokenizer appended the last token
  const json attributed = document_of(
      {"attribute", model, "--text", "the cat sat", "--target-text", "", "--format", "json"}, "attribution");
  CHECK(attributed["input"]["target_ids"] == json{2, 2, 3});
  CHECK(attributed["position"] == 0);

  const fs::path texts = folder.write("texts.jsonl",
                                      "{\"text\": \"the cat sat\", \"target\": \"cat sat\"}\n"
                                      "{\"text\": \"cat sat\", \"target\": \"the\"}\n");
  const fs::path ids = folder.write("ids.json", R"([{"ids": [2, 5, 6, 7, 3], "target_ids": [2, 2, 6, 7, 3]},
                                                    {"tokens": ["[CLS]", "cat", "sat", "[SEP]"], "target": "the"}])");
  const json of_texts = ablation(model, texts, {"--replace", "zero"});
  CHECK(of_texts["ablation"][0]["queries"] == 4 + 3);
  CHECK(of_texts["ablation"] == ablation(model, ids, {"--replace", "zero"})["ablation"]);
  const json answered = ablation(model, texts, {"--answer", "w8", "--wrong", "w9", "--by-position"});
  for (const json& record : answered["ablation"]) CHECK(record["answer_change"].is_number());
}

TEST_CASE(
    "analyze reads targets of JSON files as those of its options, and a study of an encoder ignores them") {
  const TempDir folder;
  const std::string model = (kGoldens / "bart").string();
  const std::string with = folder.write("with.jsonl", "{\"ids\": [5, 9, 12], \"target_ids\": [2, 7]}\n")
                               .string(),
                    without = folder.write("without.jsonl", "{\"ids\": [5, 9, 12]}\n").string();
  const json document = document_of({"analyze", model, "--input", with, "--format", "json"}, "analysis");
  CHECK(document["heads"].size() == 12);
  CHECK(document["heads"] ==
        document_of({"analyze", model, "--ids", "5,9,12", "--target-ids", "2,7", "--format", "json"},
                    "analysis")["heads"]);
  const auto heads = [&](const std::string& corpus, Words more) {
    more.insert(more.begin(),
                {"study", model, "--input", corpus, "--format", "json", "--measures", "metrics"});
    return document_of(more, "study");
  };
  CHECK(heads(with, {})["heads"] == heads(without, {})["heads"]);
  const json causal = heads(with, {"--causal"});
  CHECK(causal["ablation"].size() == 6);  // a study runs only the encoder, so only its heads are selected
  CHECK(causal["ablation"][0]["loss_change"].is_number());
}

TEST_CASE("commands that remove, patch and explain heads say what an encoder-decoder model needs") {
  const TempDir folder;
  const std::string model = (kGoldens / "bart").string();
  const std::string
      with = folder.write("with.jsonl", "{\"ids\": [5, 9, 12], \"target_ids\": [2, 7]}\n").string(),
      without = folder.write("without.jsonl", "{\"ids\": [5, 9]}\n").string(),
      mixed =
          folder.write("mixed.jsonl", "{\"ids\": [5]}\n{\"ids\": [5], \"target_ids\": [2, 7]}\n").string(),
      long_one = folder.write("long.jsonl", "{\"ids\": [5, 6, 7, 8], \"target_ids\": [2, 7]}\n").string(),
      both = folder.write("both.jsonl", "{\"ids\": [5], \"target_ids\": [2], \"target\": \"a\"}\n").string(),
      text = folder.write("text.jsonl", "{\"ids\": [5], \"target\": \"a\"}\n").string();
  const Words pair = {"--clean-ids", "5,9", "--corrupt-ids", "5,8"};
  struct Row {
    Words words;
    int status;
    const char* part;
  };
  const std::vector<Row> rows = {
      {{"ablate", model, "--input", without}, 3, "line 1: has no target, whose tokens the decoder predicts"},
      {{"ablate", model, "--input", with, "--probe"}, 3, "needs a causal model"},
      {{"ablate", model, "--input", long_one, "--max-length", "2", "--stride", "1"},
       3,
       "--stride does not support inputs with a target"},
      {{"ablate", model, "--input", both}, 3, "/target_ids: cannot be used together with \"target\""},
      {{"ablate", "data/tiny-llama", "--input", with}, 3, "not an encoder-decoder model; remove the target"},
      {{"analyze", "data/tiny-llama", "--input", text}, 3, "needs the start token of the decoder"},
      {{"analyze", model, "--input", mixed}, 2, "input 0: has no target, but another input has one"},
      {{"analyze", model, "--input", with, "--target-ids", "2"}, 2, "the file of --input has targets"},
      {{"patch", model, pair[0], pair[1], pair[2], pair[3]}, 2, "give --target-text TEXT"},
      {{"patch", model, pair[0], pair[1], pair[2], pair[3], "--target-ids", "2", "--target-text", "a"},
       2,
       "--target-text and --target-ids: got both; give only one of them"},
      {{"patch", model, pair[0], pair[1], pair[2], pair[3], "--target-ids", "2,3", "--corrupt-target-ids",
        "2"},
       3,
       "the targets of --clean and --corrupt: got ids (2 tokens) and ids (1 token)"},
      {{"patch", model, pair[0], pair[1], pair[2], pair[3], "--target-ids", "2", "--path",
        "enc.0.0->enc.1.0"},
       3,
       "this model has norms after the sum"},
      {{"patch", (kGoldens / "t5-old").string(), pair[0], pair[1], pair[2], pair[3], "--target-ids", "2",
        "--path", "enc.0.0:dec.1.0"},
       2,
       "need a head of cross-attention, such as cross.1.0"},
      {{"patch", "data/tiny-llama", pair[0], pair[1], pair[2], pair[3], "--target-ids", "2"},
       2,
       "--target-ids and --target-text: the model is not an encoder-decoder model"},
      {{"attribute", model, "--text-ids", "5,9"}, 2, "give --target-text TEXT"},
      {{"attribute", model, "--text-ids", "5,9,7", "--target-ids", "2", "--position", "2"},
       3,
       "the target has the positions 0 to 0"},
      {{"attribute", model, "--text-ids", "5,9,7", "--target-ids", "2", "--score", "cross.0.1:2:0"},
       3,
       "the positions 0 to 0 for queries, 0 to 2 for keys"},
      {{"attribute", model, "--text-ids", "5,9,7", "--target-ids", "2,3", "--score", "dec.0.1:0:1"},
       3,
       "query 0 does not see key 1"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.part);
    const RunResult result = run_attnctl(row.words);
    CHECK(result.status == row.status);
    CHECK_MESSAGE(result.err.find(row.part) != std::string::npos, result.err);
  }
}

}  // namespace attnctl::test
