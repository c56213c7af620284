#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "attnctl/attnctl.hpp"
#include "support/golden.hpp"
#include "support/refusal.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace {

using attn::Component;
using attnctl::test::check_refusal;
using attnctl::test::Golden;
using attnctl::test::GoldenArray;

const std::string kGoldens = std::string(ATTNCTL_SOURCE_DIR) + "/tests/golden/";
const std::string kBert = std::string(ATTNCTL_SOURCE_DIR) + "/data/tiny-bert";
const std::string kLlama = std::string(ATTNCTL_SOURCE_DIR) + "/data/tiny-llama";
const std::string kSentence = "The animal didn't cross the street because it was too tired.";

std::vector<attn::Input> golden_inputs(const Golden& golden) {
  std::vector<attn::Input> inputs(golden.inputs());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto integers = [&, i](const std::string& name) {
      const std::string full = name + "_" + std::to_string(i);
      return golden.has(full) ? golden.integers(full) : std::vector<std::int64_t>();
    };
    inputs[i].ids = integers("ids");
    inputs[i].type_ids = integers("token_type_ids");
    inputs[i].target_ids = integers("target_ids");
    for (const std::int64_t visible : integers("key_mask"))
      inputs[i].key_visible.push_back(static_cast<std::uint8_t>(visible));
  }
  return inputs;
}

/// Returns the name of an array in a golden.npz: "pattern_enc_0" for "enc_pattern_0", "qk_similarity_enc" for
/// "enc_qk_similarity".
std::string golden_name(const std::string& name) {
  static const std::regex prefixed("^(enc|dec|cross)_(.*?)(_[0-9]+)?$");
  return std::regex_replace(name, prefixed, "$2_$1$3");
}

/// Checks panels against the golden patterns as they come.
class GoldenObserver : public attn::Observer {
 public:
  explicit GoldenObserver(const Golden& golden) : golden_(golden) {}

  void begin(const attn::Batch& batch) override {
    for (const attn::LayerInfo& layer : batch.model().info().layers) components_.insert(layer.component);
    for (const Component component : components_) {
      for (std::size_t i = 0; i < batch.sequences().size(); ++i)
        patterns_.push_back(golden_.array("pattern" + suffix(component) + "_" + std::to_string(i)));
    }
    inputs_ = batch.sequences().size();
  }

  void panel(const attn::Panel& panel) override {
    const auto place =
        static_cast<std::size_t>(std::distance(components_.begin(), components_.find(panel.head.component)));
    const GoldenArray& want = patterns_.at(place * inputs_ + panel.input);  // [layers, heads, queries, keys]
    const std::size_t keys = want.shape.at(3);
    REQUIRE(panel.weights.cols == keys);
    const std::size_t row =
        (panel.head.layer * want.shape.at(1) + panel.head.head) * want.shape.at(2) + panel.first_row;
    for (std::size_t r = 0; r < panel.weights.rows; ++r) {
      for (std::size_t c = 0; c < keys; ++c) {
        largest_ = std::max(largest_, std::abs(static_cast<double>(panel.weights(r, c)) -
                                               want.values.at((row + r) * keys + c)));
      }
    }
    rows_ += panel.weights.rows;
  }

  /// Returns the largest difference of a weight.
  [[nodiscard]] double largest() const { return largest_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t golden_rows() const {
    std::size_t rows = 0;
    for (const GoldenArray& pattern : patterns_) rows += pattern.values.size() / pattern.shape.at(3);
    return rows;
  }
  [[nodiscard]] static std::string suffix(Component component) {
    return std::vector<std::string>{"", "_enc", "_dec", "_cross"}.at(static_cast<std::size_t>(component));
  }

 private:
  const Golden& golden_;
  std::set<Component> components_;
  std::vector<GoldenArray> patterns_;  // [components, inputs]
  std::size_t inputs_ = 0;
  double largest_ = 0;
  std::size_t rows_ = 0;
};

TEST_CASE("the public interface passes the golden patterns to observers and collects them") {
  for (const std::string name : {"bert", "llama", "t5"}) {
    CAPTURE(name);
    const Golden golden(kGoldens + name);
    const attn::Model model = attn::Model::open(kGoldens + name);
    const attn::Batch batch(model, golden_inputs(golden));
    GoldenObserver observer(golden);
    attn::run(batch, observer, {.threads = 1});
    CHECK(observer.rows() == observer.golden_rows());
    CHECK(observer.largest() < 1e-5);

    const attn::Results results = attn::analyze(batch, {.include = {"patterns", "weights"}});
    std::size_t compared = 0;
    for (const attn::Tensor& tensor : results.tensors) {
      const std::string array = golden_name(tensor.name);
      if (!golden.has(array)) continue;
      ++compared;
      const GoldenArray want = golden.array(array);
      CAPTURE(array);
      CHECK(tensor.shape == want.shape);
      if (const auto* const ids = std::get_if<std::vector<std::int64_t>>(&tensor.values)) {
        CHECK(*ids == golden.integers(array));
        continue;
      }
      const std::vector<float>& values = tensor.floats();
      REQUIRE(values.size() == want.values.size());
      for (std::size_t i = 0; i < want.values.size(); ++i)
        CHECK(static_cast<double>(values[i]) == doctest::Approx(want.values[i]).epsilon(1e-4));
    }
    CHECK(compared >= (batch.sequences().size() + 6) * (name == "t5" ? 3 : 1));
  }
}

/// Computes the entropy of each head of tiny-bert by definition.
class Entropy : public attn::Observer {
 public:
  void panel(const attn::Panel& panel) override {
    for (std::size_t r = 0; r < panel.weights.rows; ++r) {
      for (const float weight : panel.weights.row(r)) {
        if (weight > 0) sums.at(panel.head.layer * 4 + panel.head.head) -= weight * std::log(weight);
      }
    }
  }
  std::vector<double> sums = std::vector<double>(12);
};

TEST_CASE("the table of heads has the metrics of docs/metrics.md") {
  const attn::Model model = attn::Model::open(kBert);
  const attn::Batch batch(model, {{.text = kSentence}});
  Entropy entropy;
  attn::run(batch, entropy);
  const attn::Results results = attn::analyze(batch, {.include = {"metrics", "weights"}});
  const attn::Table& heads = results.table("heads");
  REQUIRE(heads.rows.size() == 12);
  const auto number = [&](std::size_t row, std::string_view column) {
    return std::get<double>(heads.rows.at(row).at(heads.column(column)));
  };
  for (std::size_t i = 0; i < heads.rows.size(); ++i) {
    CAPTURE(i);
    CHECK(std::get<std::int64_t>(heads.rows[i].at(heads.column("layer"))) == static_cast<int>(i / 4));
    CHECK(number(i, "entropy") == doctest::Approx(entropy.sums.at(i) / 16).epsilon(1e-5));
    CHECK(number(i, "qk_effective_rank") > 1);
  }
  const attn::Results metrics = attn::analyze(batch);
  const attn::Table& alone = metrics.table("heads");
  CHECK(std::holds_alternative<std::monostate>(alone.rows.front().at(alone.column("qk_effective_rank"))));
}

TEST_CASE("a selection of heads limits what observers and analyses see") {
  struct Heads : attn::Observer {
    void panel(const attn::Panel& panel) override { seen.insert(attn::to_string(panel.head)); }
    std::set<std::string> seen;
  };
  const attn::Model model = attn::Model::open(kGoldens + "t5");
  const attn::Batch batch(model, {{.ids = {1, 2, 3}, .target_ids = {0, 4}}});
  Heads heads;
  const std::vector<attn::Head> some = {{Component::cross, 0, 1}, {Component::encoder, 1, 2}};
  attn::run(batch, heads, {.heads = some, .threads = 1});
  CHECK(heads.seen == std::set<std::string>{"cross.0.1", "enc.1.2"});
  const attn::Results results = attn::analyze(batch, {.include = {"patterns"}, .run = {.heads = some}});
  CHECK(results.tensor("enc_pattern_0").shape == std::vector<std::size_t>{1, 1, 3, 3});
  CHECK(results.tensor("cross_pattern_0").shape == std::vector<std::size_t>{1, 1, 2, 3});

  Heads encoder;  // without a target
  attn::run(attn::Batch(model, {{.ids = {1, 2, 3}}}), encoder, {.threads = 1});
  CHECK(encoder.seen.size() == 6);
  CHECK(encoder.seen.contains("enc.1.2"));
}

TEST_CASE("the sizes of a model and the tokens of a batch") {
  const attn::Model model = attn::Model::open(kBert);
  const attn::ModelInfo& info = model.info();
  CHECK(info.name == kBert);
  CHECK(info.d_model == 128);
  CHECK(info.vocabulary == 3072);
  CHECK(info.parameters == 1024768);
  CHECK(info.max_positions == 128);
  REQUIRE(info.layers.size() == 3);
  CHECK(info.layers[2].number == 2);
  CHECK(info.layers[2].heads == 4);
  CHECK(info.layers[2].d_head == 32);
  CHECK(info.layers[2].kind == "full");
  CHECK(!info.layers[2].causal);
  CHECK(model.warnings().empty());

  const attn::Batch batch(model, {{.text = "The animal didn't"}, {.ids = {2, 521, 3}, .id = "b"}});
  REQUIRE(batch.sequences().size() == 2);
  CHECK(batch.sequences()[0].id == "0");
  CHECK(batch.sequences()[0].tokens ==
        std::vector<std::string>{"[CLS]", "the", "animal", "didn", "'", "t", "[SEP]"});
  CHECK(batch.sequences()[1].id == "b");
  CHECK(batch.sequences()[1].query_tokens(Component::none).at(1) == "animal");
}

TEST_CASE("a tokenizer gives ids, pieces and offsets, in several threads at the same time") {
  const attn::Tokenizer tokenizer = attn::Tokenizer::open(kBert);
  const std::vector<attn::Token> tokens = tokenizer.encode("The animal", "didn't");
  REQUIRE(tokens.size() == 8);
  CHECK(tokens[0].piece == "[CLS]");
  CHECK(tokens[0].is_special);
  CHECK(tokens[2].id == 521);
  CHECK(tokens[2].piece == "animal");
  CHECK(tokens[2].begin == 4);
  CHECK(tokens[2].end == 10);
  CHECK(tokens[4].type == 1);
  CHECK(tokenizer.size() == 3072);
  CHECK(tokenizer.id("animal") == 521);
  CHECK(tokenizer.piece(521) == "animal");
  CHECK(!tokenizer.piece(3072));

  std::vector<std::size_t> counts(4);
  std::vector<std::thread> threads;
  threads.reserve(counts.size());
  for (std::size_t& count : counts) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) count += tokenizer.encode(kSentence).size();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(counts == std::vector<std::size_t>(4, 800));
}

TEST_CASE("the public interface rejects wrong names, inputs and heads") {
  using attn::Status;
  const attn::Model model = attn::Model::open(kBert);
  const attn::Batch batch(model, {{.text = kSentence}});
  const auto make = [&](const attn::Input& input) {
    return [&, input] { (void)attn::Batch(model, {input}); };
  };
  struct Row {
    std::function<void()> act;
    Status status;
    std::vector<std::string_view> parts;
  };
  struct Nothing : attn::Observer {
    void panel(const attn::Panel& /*panel*/) override {}
  } nothing;
  const std::vector<Row> rows = {
      {[] { (void)attn::Model::open("no-such-model"); }, Status::environment, {"no-such-model"}},
      {[] { (void)attn::Tokenizer::open("no-such-model"); }, Status::environment, {"no-such-model"}},
      {[] { (void)attn::Tokenizer::open(kGoldens + "bert"); }, Status::bad_input, {"tokenizer"}},
      {make({.ids = {1, 3072}}), Status::bad_input, {"3072"}},
      {make({.ids = std::vector<std::int64_t>(129, 5)}), Status::bad_input, {"129", "128"}},
      {make({.ids = {1, 2}, .key_visible = {1}}), Status::bad_input, {"key"}},
      {make({.text = "\xff"}), Status::bad_input, {"UTF-8"}},
      {make({.ids = {1}, .target_ids = {1}}), Status::usage, {"not an encoder-decoder model"}},
      {[&] { attn::Batch(model, {}); }, Status::usage, {"at least one"}},
      {[&] {
         attn::Batch(model, {{.ids = {1}, .id = "a"}, {.ids = {1}, .id = "a"}});
       },
       Status::bad_input,
       {"\"a\"", "twice"}},
      {[&] {
         attn::run(batch, nothing, {.heads = {{Component::none, 3, 0}}});
       },
       Status::usage,
       {"3.0"}},
      {[&] {
         attn::run(batch, nothing, {.heads = {{Component::none, 0, 4}}});
       },
       Status::usage,
       {"0.4"}},
      {[&] { (void)attn::analyze(batch, {.include = {"entropy"}}); },
       Status::usage,
       {"\"entropy\"", "metrics"}},
      {[&] { (void)attn::analyze(batch).table("tails"); }, Status::usage, {"\"tails\"", "heads"}},
      {[&] { (void)attn::analyze(batch).tensor("pattern_0"); }, Status::usage, {"pattern_0"}},
      {[&] { (void)attn::analyze(batch).tables.front().column("colour"); },
       Status::usage,
       {"colour", "entropy"}},
      {[&] { (void)attn::analyze(batch).tensor("ids_0").floats(); }, Status::usage, {"ids_0", "float32"}},
      {[&] { (void)attn::study(model, {}); }, Status::usage, {"no files and no inputs"}},
      {[&] { (void)attn::study(model, {.files = {"no-such.txt"}}); }, Status::environment, {"no-such.txt"}},
      {[&] {
         (void)attn::study(model, {.inputs = {{.ids = {1, 3072}}}});
       },
       Status::bad_input,
       {"inputs: line 1", "3072"}},
      {[&] { (void)attn::study(model, {.inputs = {{.text = kSentence}}}, {.measures = {"entropy"}}); },
       Status::usage,
       {"entropy", "metrics"}},
      {[&] { (void)attn::compare(model, attn::Model::open(kLlama)); }, Status::bad_input, {"tiny-llama"}},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CAPTURE(i);
    check_refusal(rows[i].act, rows[i].status, rows[i].parts);
  }
}

TEST_CASE("an exception of an observer ends the run") {
  struct Thrower : attn::Observer {
    void panel(const attn::Panel& /*panel*/) override { throw std::out_of_range("mine"); }
  } thrower;
  const attn::Batch batch(attn::Model::open(kBert), {{.text = kSentence}});
  CHECK_THROWS_AS(attn::run(batch, thrower), std::out_of_range);
}

/// Returns whether a cell is what the command writes in CSV without --digits: the shortest text of a float or
/// of a double.
bool is_csv(const attn::Cell& cell, const std::string& csv) {
  if (const auto* const text = std::get_if<std::string>(&cell)) return *text == csv;
  if (const auto* const flag = std::get_if<bool>(&cell)) return csv == (*flag ? "true" : "false");
  if (const auto* const count = std::get_if<std::int64_t>(&cell)) return std::to_string(*count) == csv;
  const auto* const number = std::get_if<double>(&cell);
  if (number == nullptr || !std::isfinite(*number)) return csv.empty();
  if (csv.empty()) return false;
  return std::stod(csv) == *number || static_cast<double>(std::stof(csv)) == *number;
}

/// Checks that a table has the numbers of a CSV file of the command, to the last bit.
void check_against_csv(const attn::Table& table, const std::string& csv) {
  CAPTURE(table.name);
  std::istringstream lines(csv);
  std::string line;
  REQUIRE(std::getline(lines, line));
  std::size_t row = 0;
  while (std::getline(lines, line)) {
    line.erase(line.find_last_not_of('\r') + 1);
    std::istringstream cells(line);
    std::string cell;
    for (std::size_t column = 0; std::getline(cells, cell, ','); ++column) {
      if (cell.find_first_of("\"'") != std::string::npos) break;  // a quoted text
      CAPTURE(line);
      CAPTURE(table.columns.at(column));
      CHECK(is_csv(table.rows.at(row).at(column), cell));
    }
    ++row;
  }
  CHECK(row == table.rows.size());
}

TEST_CASE("a study has the numbers of the command, from files and from inputs") {
  const std::string corpus = std::string(ATTNCTL_SOURCE_DIR) + "/data/sentences.txt";
  const attn::Model model = attn::Model::open(kBert);
  const attn::StudyOptions options{.batch_tokens = 64, .seed = 3, .run = {.threads = 1}};
  const attn::Results of_file = attn::study(model, {.files = {corpus}}, options);
  attn::Corpus inputs;
  std::istringstream text(attnctl::test::slurp(corpus));
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) inputs.inputs.push_back({.text = line});
  const attn::Results of_inputs = attn::study(model, inputs, options);
  CHECK(of_file.tensors.empty());
  REQUIRE(of_file.tables.size() >= 12);
  REQUIRE(of_inputs.tables.size() == of_file.tables.size());
  for (std::size_t i = 0; i < of_file.tables.size(); ++i) {
    const attn::Table& table = of_file.tables[i];
    const auto result = attnctl::test::run_attnctl({"study", kBert, "--input", corpus, "--batch-tokens", "64",
                                                    "--seed", "3", "--format", "csv", "--table", table.name});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    check_against_csv(table, result.out);
    CHECK(of_inputs.tables[i].rows == table.rows);
    CHECK(of_inputs.tables[i].types == table.types);
  }
}

TEST_CASE("a comparison has the numbers of the command") {
  const std::string corpus = std::string(ATTNCTL_SOURCE_DIR) + "/data/sentences.txt";
  const attn::Model bert = attn::Model::open(kBert), llama = attn::Model::open(kLlama);
  const auto check = [](const attn::Results& results, std::vector<std::string> command) {
    CHECK(results.tables.size() >= 2);
    for (const attn::Table& table : results.tables) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {"--format", "csv", "--table", table.name});
      const auto result = attnctl::test::run_attnctl(words);
      REQUIRE_MESSAGE(result.status == 0, result.err);
      check_against_csv(table, result.out);
    }
  };
  check(attn::compare(bert, bert), {"compare", kBert, kBert});
  check(attn::compare(bert, bert, {.files = {corpus}}, {.match = true, .study = {.measures = {"metrics"}}}),
        {"compare", kBert, kBert, "--input", corpus, "--match", "--measures", "metrics"});
  const attn::Results unlike =
      attn::compare(bert, llama, {.files = {corpus}}, {.study = {.measures = {"metrics"}}});
  CHECK(!unlike.table("differences").rows.empty());
}

TEST_CASE("a stop ends a run, and the model can be used again") {
  const attn::Model model = attn::Model::open(kBert);
  const attn::Batch batch(model, {{.text = kSentence}});
  std::stop_source stop;
  stop.request_stop();
  for (const std::size_t threads : {1UL, 2UL}) {
    CAPTURE(threads);
    const attn::RunOptions stopped{.threads = threads, .stop = stop.get_token()};
    const auto interrupted = attn::Status::interrupted;
    check_refusal([&] { (void)attn::analyze(batch, {.run = stopped}); }, interrupted, {"interrupted"});
    check_refusal([&] { (void)attn::study(model, {.inputs = {{.text = kSentence}}}, {.run = stopped}); },
                  interrupted, {"interrupted"});
    CHECK(attn::analyze(batch).table("heads").rows.size() == 12);
  }
}

TEST_CASE("a run reports its progress, and an exception of the callback ends it") {
  const attn::Batch batch(attn::Model::open(kBert), {{.text = kSentence}});
  std::vector<attn::Progress> seen;
  (void)attn::analyze(
      batch, {.run = {.progress = [&](const attn::Progress& progress) { seen.push_back(progress); }}});
  REQUIRE(!seen.empty());
  CHECK(seen.front().step == "forward");
  CHECK(seen.front().total == 3);
  CHECK(seen.front().unit == "layer");
  const auto fail = [](const attn::Progress& /*progress*/) { throw std::out_of_range("mine"); };
  CHECK_THROWS_AS((void)attn::analyze(batch, {.run = {.progress = fail}}), std::out_of_range);
}

TEST_CASE("the library has the version of the program") {
  CHECK(attnctl::test::run_attnctl({"--version"}).out.starts_with("attnctl " + attn::version() + " "));
}

}  // namespace
