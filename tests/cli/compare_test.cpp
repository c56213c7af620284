#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/dtype.hpp"
#include "base/pool.hpp"
#include "cli/commands.hpp"
#include "reference/reference.hpp"
#include "support/json_schema.hpp"
#include "support/memory_checkpoint.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

const std::string kBert = ATTNCTL_SOURCE_DIR "/data/tiny-bert";
const std::string kLlama = ATTNCTL_SOURCE_DIR "/data/tiny-llama";
const std::string kCorpus = ATTNCTL_SOURCE_DIR "/data/treebank.conllu";

/// A folder with the states a.state of tiny-bert and b.state of tiny-llama.
struct TwoStudies {
  TempDir folder;
  std::string a = write("a.state", kBert), b = write("b.state", kLlama);

  [[nodiscard]] std::string write(const std::string& name, const std::string& model,
                                  const Words& more = {}) const {
    std::string path = (folder.path() / name).string();
    Words words = {"study",   model, "--input", kCorpus, "--measures", "metrics,special,roles",
                   "--state", path};
    words.insert(words.end(), more.begin(), more.end());
    const RunResult result = run_attnctl(words);
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return path;
  }
};

RunResult compare(const Words& arguments) {
  Words words = {"compare"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_attnctl(words);
}
json document_of(const Words& arguments) {
  const RunResult result = compare(arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  return json::parse(result.out);
}

TEST_CASE("compare joins two state files, and matches its schema") {
  const TwoStudies studies;
  const json document = document_of({studies.a, studies.b, "--format", "json"});
  CHECK(schema_breaches(json::parse(cli::schema_text("comparison")), document) == Words{});
  CHECK(document["models"]["a"]["path"] == kBert);
  CHECK(document["models"]["b"]["path"] == kLlama);
  CHECK(document["models"]["a"]["family"] != document["models"]["b"]["family"]);
  CHECK(document["roles"].size() > 2);
  CHECK(document["warnings"][0]["code"] == "heads_left_out");  // tiny-llama has one more layer
  CHECK(document["warnings"][0]["message"].get<std::string>().ends_with(": 0 of a, 4 of b"));
  const json back = document_of({studies.b, studies.a, "--format", "json"});
  REQUIRE(back["differences"].size() == document["differences"].size());
  std::size_t changed = 0;
  for (std::size_t i = 0; i < back["differences"].size(); ++i) {
    const json& there = document["differences"][i]["difference"];
    const json& here = back["differences"][i]["difference"];
    CHECK(there.is_null() == here.is_null());
    if (there.is_null()) continue;
    CHECK(there.get<double>() == -here.get<double>());
    if (there.get<double>() != 0) ++changed;
  }
  CHECK(changed > 100);
  const auto first_row_of = [&](const std::string& table, const std::string& column) {
    const json& rows = document["differences"];
    return std::ranges::find_if(
               rows, [&](const json& row) { return row["table"] == table && row["column"] == column; }) -
           rows.begin();
  };
  CHECK(first_row_of("heads", "entropy") == 0);
  CHECK(first_row_of("special", "share") < first_row_of("heads", "rows"));  // counts are last
}

TEST_CASE("a study does not differ from itself") {
  const TwoStudies studies;
  const json document = document_of({studies.a, studies.a, "--format", "json"});
  CHECK(document["differences"].size() > 300);
  for (const json& row : document["differences"]) CHECK(row["difference"] == 0);
  CHECK(document["roles"].empty());
  CHECK(document["warnings"].empty());
  const std::string page = compare({studies.a, studies.a, "--format", "text"}).out;
  CHECK(page.find("No number of a head that text shows differs.") != std::string::npos);
}

TEST_CASE("compare computes the studies of two models") {
  const TwoStudies studies;
  const json wanted = document_of({studies.a, studies.b, "--format", "json"});
  const json document = document_of(
      {kBert, kLlama, "--input", kCorpus, "--measures", "metrics,special,roles", "--format", "json"});
  CHECK(document == wanted);
  const json all = document_of({kBert, kLlama, "--input", kCorpus, "--heads", "0.1,2.3", "--format", "json"});
  CHECK(all["warnings"].dump().find("heads_left_out") == std::string::npos);
  for (const json& row : all["differences"]) CHECK((row["name"] == "0.1" || row["name"] == "2.3"));
  CHECK(all["differences"].dump().find("\"probe\"") != std::string::npos);
}

TEST_CASE("compare gives a warning that both studies have once") {
  const RunResult result = compare({kBert, kLlama, "--input", ATTNCTL_SOURCE_DIR "/data/treebank.conllu",
                                    "--batch-tokens", "4096", "--measures", "syntax", "--format", "json"});
  CHECK(result.err.find("--batch-tokens, such as 42\n") != std::string::npos);
  const json document = json::parse(result.out);
  for (const json& warning : document["warnings"])
    if (warning["code"] == "no_held_out") CHECK(warning["count"] == 1);
}

TEST_CASE("compare writes text, tables and a picture") {
  const TwoStudies studies;
  const std::string page = compare({studies.a, studies.b, "--format", "text"}).out;
  CHECK(page.starts_with("a: " + kBert + ", b: " + kLlama + " (12 common heads, corpus: " + kCorpus + ")\n"));
  CHECK(std::ranges::count(page, '\n') <= 50);
  CHECK(page.find("\nThe models have different architectures: heads with the same number need not") !=
        std::string::npos);
  CHECK(page.find("distributions.") == std::string::npos);
  CHECK(compare({studies.a, studies.a, "--format", "text"}).out.find("architectures") == std::string::npos);
  CHECK(page.find("\nDifferences without an interval may be chance") != std::string::npos);
  const std::string whole = compare({studies.a, studies.b, "--format", "text", "--top", "all"}).out;
  CHECK(std::ranges::count(whole, '\n') > 140);
  const std::string csv = compare({studies.a, studies.b, "--format", "csv"}).out;
  CHECK(csv.starts_with(
      "table,component,layer,head,name,key,column,a,b,difference,low,high,clear\r\nheads,,0,0,0.0,,"));
  const std::string roles = compare({studies.a, studies.b, "--format", "csv", "--table", "roles"}).out;
  CHECK(roles.starts_with("component,layer,head,name,role,detail,change,score,low,high\r\n"));
  CHECK(roles.find(",0,0,0.0,positional,+1,lost,") != std::string::npos);
  const RunResult picture = compare({studies.a, studies.b, "--plot", "special.share", "--format", "svg"});
  CHECK(picture.status == 0);
  CHECK(picture.out.find("Differences (b - a): special share") != std::string::npos);
}

TEST_CASE("compare and merge read the files that match a pattern") {
  const TwoStudies studies;
  const auto pattern = [&](const std::string& name) { return (studies.folder.path() / name).string(); };
  const Words json_of_both = {studies.a, studies.b, "--format", "json"};
  CHECK(document_of({pattern("a*.state"), pattern("[b].state"), "--format", "json"}) ==
        document_of(json_of_both));
  const RunResult several = compare({pattern("*.state"), studies.b});
  CHECK(several.status == 2);
  CHECK_MESSAGE(several.err.find("*.state: matches 2 files, need one") != std::string::npos, several.err);
  CHECK(compare({pattern("c*.state"), studies.b}).err.find("no file matches this pattern") !=
        std::string::npos);
  CHECK(run_attnctl({"merge", pattern("a*.state")}).out == run_attnctl({"merge", studies.a}).out);
  const RunResult status = run_attnctl({"merge", "--status", pattern("*.state"), "--format", "json"});
  CHECK(json::parse(status.out)["states"].size() == 2);
}

/// A copy of the golden model llama whose configuration has other values of some keys, and whose last weight
/// differs by one bit, not the last one, if `flipped` is true.
std::string copy_of_llama(const TempDir& folder, const json& keys, bool flipped) {
  const std::filesystem::path golden = ATTNCTL_SOURCE_DIR "/tests/golden/llama";
  json config = json::parse(slurp(golden / "config.json"));
  config.update(keys);
  folder.write("config.json", config.dump());
  std::string weights = slurp(golden / "model.safetensors");
  if (flipped) weights[weights.size() - 4] ^= 8;
  folder.write("model.safetensors", weights);
  return folder.path().string();
}

TEST_CASE("compare shows what changed in the weights of two models") {
  const std::string llama = ATTNCTL_SOURCE_DIR "/tests/golden/llama";
  const auto statuses = [](const json& rows) {
    std::map<std::string, std::size_t> counts;
    for (const json& row : rows) ++counts[row["status"]];
    return counts;
  };
  using Counts = std::map<std::string, std::size_t>;
  const json same = document_of({llama, ATTNCTL_SOURCE_DIR "/tests/golden/gguf/llama-f32.gguf"});
  CHECK(schema_breaches(json::parse(cli::schema_text("comparison")), same) == Words{});
  CHECK(statuses(same["heads"]) == Counts{{"identical", 12}});
  CHECK(same["projections"].size() == 4 * 12);
  for (const json& row : same["projections"]) {
    CHECK(row["overlap"].get<double>() == doctest::Approx(1));
    CHECK(row["largest_angle"] == 0);
  }

  const TempDir folder;
  const std::string copy = copy_of_llama(folder, {{"rope_theta", 5e5}}, false);
  const json theta = document_of({llama, copy});
  CHECK(statuses(theta["weights"]) == Counts{{"identical", theta["weights"].size()}});
  REQUIRE(theta["config"].size() == 1);
  CHECK(theta["config"][0]["key"] == "rope_theta");
  CHECK(theta["config"][0]["b"] == "500000.0");
  const std::string page = compare({llama, copy, "--format", "text"}).out;
  CHECK_MESSAGE(page.find("No weight differs, but the configurations do") != std::string::npos, page);

  const TempDir other;
  const std::string flipped = copy_of_llama(other, json::object(), true);
  const json bit = document_of({llama, flipped});
  CHECK(bit["config"].empty());
  CHECK(statuses(bit["weights"])["changed"] == 1);
  const auto changed =
      std::ranges::find(bit["weights"], json("changed"), [](const json& row) { return row["status"]; });
  CHECK((*changed)["elements"] == 1);

  CHECK(compare({llama, flipped, "--heads", "1.2", "--format", "csv"})
            .out.starts_with("component,layer,head,name,name_b,qk_change,"));
  CHECK(compare({llama, flipped, "--table", "config", "--format", "csv"}).out == "key,a,b\r\n");
  const std::string picture = compare({llama, flipped, "--format", "svg"}).out;
  CHECK(picture.find("Changes of Heads from a to b") != std::string::npos);
  const std::string circuit = "QK = W_Q W_K^T";  // one heatmap has all heads
  const std::size_t title = picture.find(circuit);
  REQUIRE(title != std::string::npos);
  CHECK(picture[title + circuit.size()] == '<');
  CHECK(picture.find(circuit, title + 1) == std::string::npos);
}

/// Writes a copy of tiny-llama in which change() changed the values of some weights.
std::string edited_llama(const TempDir& folder,
                         const std::function<void(const std::string& name, std::vector<float>&)>& change) {
  MemoryModel model = MemoryModel::read(kLlama);
  for (auto& [name, tensor] : model.tensors) {
    REQUIRE(tensor.dtype == DType::f16);
    std::vector<float> values(tensor.bytes.size() / sizeof(std::uint16_t));
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, tensor.bytes.data() + i * sizeof bits, sizeof bits);
      values[i] = float_from_f16(bits);
    }
    change(name, values);
    tensor = floats(tensor.shape, values);
  }
  model.write(folder.path());
  for (const char* const file : {"tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy_file(std::filesystem::path(kLlama) / file, folder.path() / file);
  return folder.path().string();
}

/// Exchanges the heads 0 and 1 of layer 0, each of width 32.
void swap_heads(const std::string& name, std::vector<float>& values) {
  constexpr std::size_t d = 128, width = 32;
  if (!name.starts_with("model.layers.0.self_attn.")) return;
  REQUIRE(values.size() == d * d);
  for (std::size_t row = 0; row < d; ++row) {
    for (std::size_t i = 0; i < width; ++i) {
      if (name.ends_with("o_proj.weight"))
        std::swap(values[row * d + i], values[row * d + width + i]);
      else
        std::swap(values[i * d + row], values[(width + i) * d + row]);
    }
  }
}

json row_of_head(const json& rows, const std::string& name) {
  const auto found = std::ranges::find(rows, json(name), [](const json& row) { return row["name"]; });
  REQUIRE(found != rows.end());
  return *found;
}

TEST_CASE("two heads that were exchanged are as different as a study says, and --match finds them") {
  const TempDir folder, texts;
  const std::string swapped = edited_llama(folder, swap_heads);
  // CKA of one sentence has the same formula in a study.
  const std::string corpus =
      texts.write("one.txt", "The old man said that the cat sat on the mat.\n").string();
  const RunResult study = run_attnctl({"study", kLlama, "--input", corpus, "--measures", "pairs"});
  REQUIRE_MESSAGE(study.status == 0, study.err);
  std::map<std::string, double> pairs;
  const json of_study = json::parse(study.out);
  for (const json& item : of_study["pairs"]) {
    const auto place = [&](const char* name) {
      return static_cast<std::size_t>(std::ranges::find(item["names"], json(name)) - item["names"].begin());
    };
    pairs[item["measure"]] = item["value"][place("0.0")][place("0.1")];
  }
  const Words both = {kLlama, swapped, "--input", corpus, "--measures", "metrics", "--format", "json"};
  const json document = document_of(both);
  CHECK(schema_breaches(json::parse(cli::schema_text("comparison")), document) == Words{});
  for (const char* const name : {"0.0", "0.1"}) {
    const json row = row_of_head(document["behaviour"], name);
    CHECK(row["name_b"] == name);
    CHECK(row["js_divergence"].get<double>() == doctest::Approx(pairs.at("js_divergence")).epsilon(1e-4));
    CHECK(row["cka"].get<double>() == doctest::Approx(pairs.at("cka")).epsilon(1e-4));
  }
  CHECK(pairs.at("js_divergence") > 0.01);
  for (const json& row : document["behaviour"]) {
    if (row["layer"] != 0) CHECK(row["js_divergence"].get<double>() < 1e-7);
    CHECK(row["noise"].get<double>() < 1e-7);
    // null: the outputs of the head hardly differ from each other
    CHECK((row["cka_noise"].is_null() || std::abs(row["cka_noise"].get<double>() - 1) < 1e-3));
  }
  CHECK(std::ranges::count_if(document["behaviour"],
                              [](const json& row) { return !row["cka_noise"].is_null(); }) > 12);

  for (const Words& more : {Words{"--input", corpus, "--measures", "metrics"}, Words{}}) {
    Words words = {kLlama, swapped, "--match", "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    const json matched = document_of(words);
    CHECK(schema_breaches(json::parse(cli::schema_text("comparison")), matched) == Words{});
    CHECK(matched["match"]["by"] == (more.empty() ? "weights" : "behaviour"));
    CHECK(matched["match"]["score"].get<double>() == doctest::Approx(1).epsilon(1e-6));
    CHECK(matched["match"]["p_value"] == 0.001);
    CHECK(matched["match"]["random_mean"].get<double>() < 0.9);
    const json& rows = matched[more.empty() ? "heads" : "behaviour"];
    for (const json& row : rows) {
      const std::string name = row["name"];
      CHECK(row["name_b"] == (name == "0.0" ? "0.1" : name == "0.1" ? "0.0" : name));
      if (more.empty())
        CHECK(row["status"] == (row["layer"] == 0 && row["head"] < 2 ? "moved" : "identical"));
      else
        CHECK(row["js_divergence"].get<double>() < 1e-7);
    }
  }
}

TEST_CASE("one head that was replaced is found in weights, patterns, metrics and predictions") {
  const TempDir folder;
  const std::string replaced = edited_llama(folder, [](const std::string& name, std::vector<float>& values) {
    if (name != "model.layers.0.self_attn.q_proj.weight") return;
    for (std::size_t i = 32 * 128; i < 64 * 128; ++i) values[i] = -values[i];
  });
  const Words corpus = {"--input", kCorpus, "--measures", "metrics", "--format", "json"};
  const auto with = [&](Words models) {
    models.insert(models.end(), corpus.begin(), corpus.end());
    return document_of(models);
  };
  const json there = with({kLlama, replaced}), back = with({replaced, kLlama});
  for (const json& row : there["heads"])
    CHECK(row["status"] == (row["name"] == "0.1" ? "changed" : "identical"));
  CHECK(row_of_head(there["heads"], "0.1")["qk_change"] == 2);  // B = -A
  for (const json& row : there["behaviour"]) {
    const double divergence = row["js_divergence"];
    if (row["name"] == "0.1") CHECK(divergence > 0.01);
    if (row["layer"] == 0 && row["name"] != "0.1") CHECK(divergence < 1e-7);
    CHECK(divergence <= 0.6932);
    CHECK(divergence ==
          doctest::Approx(row_of_head(back["behaviour"], row["name"])["js_divergence"].get<double>()));
  }
  REQUIRE(there["metric_changes"].size() == back["metric_changes"].size());
  std::size_t clear = 0;
  for (std::size_t i = 0; i < there["metric_changes"].size(); ++i) {
    const json &x = there["metric_changes"][i], &y = back["metric_changes"][i];
    CHECK(x["a"] == y["b"]);
    if (x["difference"].is_null()) continue;
    CHECK(x["difference"].get<double>() == -y["difference"].get<double>());
    CHECK(x["low"].get<double>() == doctest::Approx(-y["high"].get<double>()));
    CHECK(x["clear"] == y["clear"]);
    if (x["clear"] == true) ++clear;
    // The model is stored as float16 and its copy as float32: their products may round differently.
    if (x["layer"] == 0 && x["head"] != 1) CHECK(std::abs(x["difference"].get<double>()) < 1e-6);
  }
  CHECK(clear > 5);
  std::map<std::string, double> output;
  for (const json& row : there["output"]) output[row["measure"]] = row["value"];
  CHECK(output.at("kl_divergence") > 0.01);
  CHECK(output.at("top1_agreement") < 1);
  CHECK(std::abs(output.at("loss_change")) > 0.01);
  const std::string page = compare({kLlama, replaced, "--input", kCorpus, "--measures", "metrics"}).out;
  CHECK(page.size() > 100);
}

TEST_CASE("a head that lost a role is named, but not one with the same weights") {
  const TempDir folder;
  const std::string replaced = edited_llama(folder, [](const std::string& name, std::vector<float>& values) {
    if (name != "model.layers.2.self_attn.q_proj.weight") return;
    for (std::size_t i = 0; i < 32 * 128; ++i) values[i] = -values[i];
  });
  const Words words = {kLlama, replaced, "--input", kCorpus, "--measures", "probe,roles"};
  Words text = words, document = words;
  text.insert(text.end(), {"--format", "text"});
  document.insert(document.end(), {"--format", "json"});
  const json found = document_of(document);
  CHECK(schema_breaches(json::parse(cli::schema_text("comparison")), found) == Words{});
  for (const json& row : found["heads"])
    CHECK(row["status"] == (row["name"] == "2.0" ? "changed_role" : "identical"));
  CHECK(row_of_head(found["roles"], "2.0")["change"] == "lost");
  CHECK(compare(text).out.find("Heads: 15 identical, 1 with a changed role\n") != std::string::npos);
}

TEST_CASE("weights that were rounded to Q8_0 are equal up to rounding in every head") {
  const TempDir folder;
  const std::string rounded = edited_llama(folder, [](const std::string&, std::vector<float>& values) {
    constexpr std::size_t block = 32;
    for (std::size_t begin = 0; begin + block <= values.size(); begin += block) {
      const std::span<float> numbers = std::span(values).subspan(begin, block);
      float largest = 0;
      for (const float value : numbers) largest = std::max(largest, std::abs(value));
      const float inverse = largest > 0 ? 127 / largest : 0;
      // The scale is a float16 number, which has 10 of the 23 binary digits of a float32 number.
      const float scale = std::bit_cast<float>(std::bit_cast<std::uint32_t>(largest / 127) & 0xFFFFE000U);
      for (float& value : numbers) value = std::round(value * inverse) * scale;
    }
  });
  const json document = document_of({kLlama, rounded, "--format", "json"});
  CHECK(document["heads"].size() == 16);
  for (const json& row : document["heads"]) CHECK(row["status"] == "rounding");
  for (const json& row : document["weights"]) CHECK(row["status"] != "changed");
}

TEST_CASE("the changes of metrics and predictions are those of the commands for one model") {
  const TempDir folder;
  const std::string scaled = edited_llama(folder, [](const std::string& name, std::vector<float>& values) {
    if (name == "model.layers.2.self_attn.q_proj.weight")
      for (float& value : values) value *= 1.5F;
  });
  const TempDir texts;
  const std::string corpus = texts.write("one.txt", "The cat sat on the mat.\n").string();
  const json document =
      document_of({kLlama, scaled, "--input", corpus, "--measures", "metrics", "--format", "json"});
  std::map<std::string, json> analysis;
  for (const std::string& model : {kLlama, scaled}) {
    const RunResult run = run_attnctl(
        {"analyze", model, "The cat sat on the mat.", "--include", "metrics,logits", "--format", "json"});
    REQUIRE(run.status == 0);
    analysis[model == kLlama ? "a" : "b"] = json::parse(run.out);
  }
  for (const json& row : document["metric_changes"]) {
    for (const char* const side : {"a", "b"}) {
      const json wanted =
          row_of_head(analysis.at(side)["heads"], row["name"])[row["metric"].get<std::string>()];
      if (wanted.is_null())
        CHECK(row[side].is_null());
      else
        CHECK(row[side].get<double>() == doctest::Approx(wanted.get<double>()).epsilon(1e-5));
    }
    CHECK(row["low"].is_null());  // one sentence has no interval
  }
  // KL, agreement and loss from the logits of the two runs, in float64.
  const auto log_probabilities = [](const json& logits) {
    std::vector<double> values = logits;
    double sum = 0;
    for (const double value : values) sum += std::exp(value);
    for (double& value : values) value -= std::log(sum);
    return values;
  };
  const json &a = analysis.at("a")["arrays"][0]["value"], &b = analysis.at("b")["arrays"][0]["value"];
  const std::vector<std::size_t> ids = analysis.at("a")["inputs"][0]["ids"];
  double kl = 0, agreement = 0, loss = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> x = log_probabilities(a[i]), y = log_probabilities(b[i]);
    for (std::size_t t = 0; t < x.size(); ++t) kl += std::exp(x[t]) * (x[t] - y[t]);
    agreement += std::ranges::max_element(x) - x.begin() == std::ranges::max_element(y) - y.begin() ? 1 : 0;
    if (i + 1 == a.size()) continue;
    loss += x[ids[i + 1]] - y[ids[i + 1]];
  }
  const auto n = static_cast<double>(a.size());
  std::map<std::string, double> output;
  for (const json& row : document["output"]) output[row["measure"]] = row["value"];
  CHECK(output.at("kl_divergence") == doctest::Approx(kl / n).epsilon(1e-4));
  CHECK(output.at("top1_agreement") == doctest::Approx(agreement / n));
  CHECK(output.at("loss_change") == doctest::Approx(loss / (n - 1)).epsilon(1e-4));
}

TEST_CASE("beside each figure of compare is the one that rounding to float32 alone causes") {
  const TempDir texts;
  const std::string text = "The cat sat on the mat.";
  const std::string corpus = texts.write("two.txt", text + "\nA dog ran.\n").string();
  const json document =
      document_of({kLlama, kLlama, "--input", corpus, "--measures", "metrics", "--format", "json"});
  std::map<std::string, double> noise;
  for (const json& row : document["output"]) {
    CHECK(row["value"] == (row["measure"] == "top1_agreement" ? 1 : 0));
    noise[row["measure"]] = row["noise"];
  }
  // The same from the float64 reference and the pass of the first sentence.
  Pool pool(2);
  const model::Model model = MemoryModel::read(kLlama).bound();
  const RunResult run = run_attnctl({"analyze", kLlama, text, "--include", "logits", "--format", "json"});
  REQUIRE(run.status == 0);
  const json analysis = json::parse(run.out);
  input::Sequence sequence;
  for (const json& id : analysis["inputs"][0]["ids"]) sequence.ids.push_back(id.get<std::int64_t>());
  const std::size_t n = sequence.ids.size();
  const reference::ReferencePass pass =
      reference::run_reference(model, sequence, model.config().layers.size() - 1, true, pool);
  double loss = 0;
  for (std::size_t i = 0; i + 1 < n; ++i) {
    const auto target = static_cast<std::size_t>(sequence.ids[i + 1]);
    const auto loss_of = [&](const auto& row) {
      double sum = 0;
      for (std::size_t t = 0; t < pass.logits.cols(); ++t) sum += std::exp(double{row(t)});
      return std::log(sum) - double{row(target)};
    };
    const json& logits = analysis["arrays"][0]["value"][i];
    loss += loss_of([&](std::size_t t) { return static_cast<float>(pass.logits(i, t)); }) -
            loss_of([&](std::size_t t) { return logits[t].get<double>(); });
  }
  CHECK(std::abs(noise.at("loss_change") - loss / static_cast<double>(n - 1)) < 1e-7);
  CHECK(noise.at("loss_change") != 0);
  CHECK(noise.at("kl_divergence") < 1e-7);
  CHECK(noise.at("top1_agreement") == 1);
  double largest = 0;
  for (const json& row : document["metric_changes"]) {
    CHECK(row["difference"] == (row["a"].is_null() ? json() : json(0)));
    if (row["metric"] == "confidence") largest = std::max(largest, row["noise"].get<double>());
  }
  CHECK(largest > 0);
  CHECK(largest < 1e-5);
}

TEST_CASE("heads of models with different shapes are compared by what they do") {
  const TempDir folder;
  MemoryModel::read(kLlama).with_layers(2).write_with_tokenizer(folder.path(), kLlama);
  const std::string small = folder.path().string(), large = kLlama;
  const Words options = {
      "--input", ATTNCTL_SOURCE_DIR "/data/sentences.txt", "--measures", "metrics", "--format", "json"};
  const auto with = [&](Words words) {
    words.insert(words.end(), options.begin(), options.end());
    return compare(words);
  };
  const RunResult run = with({large, small});
  REQUIRE_MESSAGE(run.status == 0, run.err);
  const json document = json::parse(run.out);
  CHECK_FALSE(document.contains("heads"));
  CHECK(document["behaviour"].size() == 8);  // of the first two layers, which are the same
  for (const json& row : document["behaviour"]) CHECK(row["js_divergence"] == 0);
  const RunResult few = with({large, small, "--match"});
  CHECK(few.status == 2);
  CHECK_MESSAGE(few.err.find("give the model with fewer heads first") != std::string::npos, few.err);
  const json matched = json::parse(with({small, large, "--match"}).out);
  CHECK(matched["behaviour"].size() == 8);
  for (const json& row : matched["behaviour"]) CHECK(row["js_divergence"].get<double>() < 1e-7);
  CHECK(matched["match"]["score"].get<double>() == doctest::Approx(1));
}

TEST_CASE("without targets, encoder-decoder models are compared by the heads of their encoders") {
  const TempDir folder;
  const std::string ids =
      folder.write("ids.jsonl", "{\"ids\": [5, 9, 12, 7, 3]}\n{\"ids\": [4, 8]}\n").string();
  const std::string bart = ATTNCTL_SOURCE_DIR "/tests/golden/bart",
                    bert = ATTNCTL_SOURCE_DIR "/tests/golden/bert";
  const Words options = {"--input", ids, "--measures", "metrics", "--format", "json"};
  const auto with = [&](Words words) {
    words.insert(words.end(), options.begin(), options.end());
    return words;
  };
  const json document = document_of(with({bart, bart}));
  CHECK(document["behaviour"].size() == 6);
  for (const json& row : document["behaviour"]) CHECK(row["js_divergence"] == 0);
  CHECK_FALSE(document.contains("output"));
  const RunResult none = compare(with({bart, bert}));
  CHECK(none.status == 3);
  CHECK_MESSAGE(none.err.find("no head is in both studies") != std::string::npos, none.err);
  CHECK(compare(with({bert, bart, "--match"})).status == 3);  // their studies have no common head
}

TEST_CASE("differences of studies have the interval of Zou and Donner, and roles their scores") {
  const TempDir folder;
  const auto study = [&](const std::string& name, const std::string& model) {
    const std::string state = (folder.path() / name).string();
    const RunResult run =
        run_attnctl({"study", model, "--input", kCorpus, "--measures", "residual,roles", "--state", state});
    REQUIRE_MESSAGE(run.status == 0, run.err);
    return std::pair(state, json::parse(run.out));
  };
  const auto [state_a, a] = study("a", kBert);
  const auto [state_b, b] = study("b", kLlama);
  const json document = document_of({state_a, state_b, "--format", "json"});
  std::size_t found = 0, clear = 0, tests = 0;
  for (const json& row : document["differences"]) {
    CHECK(row["low"].is_null() == row["clear"].is_null());
    if (!row["low"].is_null()) ++tests;
    if (row["clear"] == true) ++clear;
    if (row["table"] != "writes" || row["column"] != "write_ratio") continue;
    const json x = row_of_head(a["writes"], row["name"]), y = row_of_head(b["writes"], row["name"]);
    const auto number = [](const json& from, const char* key) { return from[key].get<double>(); };
    const double difference = number(y, "write_ratio") - number(x, "write_ratio");
    const double down =
        std::hypot(number(y, "write_ratio") - number(y, "low"), number(x, "high") - number(x, "write_ratio"));
    const double up =
        std::hypot(number(y, "high") - number(y, "write_ratio"), number(x, "write_ratio") - number(x, "low"));
    CHECK(row["low"].get<double>() == doctest::Approx(difference - down).epsilon(1e-4));
    CHECK(row["high"].get<double>() == doctest::Approx(difference + up).epsilon(1e-4));
    if (row["clear"] == true) CHECK((row["low"].get<double>() > 0 || row["high"].get<double>() < 0));
    ++found;
  }
  CHECK(found == 12);
  CHECK(clear > 0);
  CHECK(clear < tests);
  REQUIRE(!document["roles"].empty());
  for (const json& row : document["roles"]) {
    CHECK(row["low"].get<double>() <= row["score"].get<double>());
    CHECK(row["score"].get<double>() <= row["high"].get<double>());
  }
}

TEST_CASE("compare refuses studies that differ in more than the model") {
  const TwoStudies studies;
  const auto check = [](const Words& arguments, int status, const std::string& part) {
    const RunResult result = compare(arguments);
    CHECK(result.status == status);
    CHECK(result.out.empty());
    CHECK_MESSAGE(result.err.find(part) != std::string::npos, result.err);
  };
  const std::string seed = studies.write("seed.state", kBert, {"--seed", "5"});
  check({studies.a, seed}, 3,
        seed + ": cannot be compared: --seed: got \"5\", need \"0\" as in " + studies.a +
            "; use the same corpus and options");
  const std::string other = studies.folder.write("other.txt", "A cat.\n").string();
  check({studies.a, studies.write("corpus.state", kBert, {"--input", other})}, 3,
        ": cannot be compared: corpus: got ");
  const std::string part = (studies.folder.path() / "part.state").string();
  REQUIRE(run_attnctl({"study", kBert, "--input", kCorpus, "--measures", "metrics,special,roles", "--shard",
                       "1/2", "--batch-tokens", "16", "--state", part})
              .status == 0);
  check({part, studies.a}, 3, part + ": the study is not finished (");
  check({kBert, kLlama}, 3, "to compare the weights, both models need the same shape");
  check({studies.a, kLlama}, 2, "is not; give two models, or two studies");
  check({studies.a, studies.b, "--layers", "0"}, 2, "only models have these options");
  check({studies.a, studies.b, "--measures", "metrics"}, 2, "--measures");
  check({kBert, kLlama, "--input", "-"}, 2, "--input -: compare reads the corpus once for each model");
  check({studies.a, studies.b, "--format", "svg"}, 2, "--plot COLUMN");
  check({kBert, kLlama, "--input", kCorpus, "--plot", "entropi", "--format", "svg"}, 2,
        "--plot entropi: no measure has this column");
  check({kBert, kLlama, "--input", kCorpus, "--measures", "pairs"}, 3, "no numbers of single heads");
  check({studies.a, studies.b, "--top", "0"}, 2, "--top: got 0, need a positive number, or all");
}

}  // namespace
}  // namespace attnctl::test
