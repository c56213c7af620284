#include "support/golden.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/pool.hpp"
#include "checkpoint/checkpoint.hpp"
#include "forward/run.hpp"
#include "model/model.hpp"
#include "support/capture.hpp"
#include "support/temp_dir.hpp"
#include "tokenizer/vocabulary.hpp"

using attnctl::test::CapturedSequence;
using attnctl::test::Golden;
using attnctl::test::GoldenArray;

namespace {

/// Returns the largest difference between a matrix and its part of the golden's packed array. -inf equals
/// -inf.
double difference(const GoldenArray& want, std::size_t offset, const attnctl::OwnedMatrix<float>& got) {
  double worst = 0;
  for (std::size_t i = 0; i < got.values().size(); ++i) {
    const double wanted = want.values.at(offset + i);
    const double value = double{got.values()[i]};
    if (wanted == value) continue;
    const double distance = std::abs(wanted - value);
    if (!(distance <= worst)) worst = distance;
  }
  return worst;
}

/// Returns the largest difference that a float32 program may have. The bound of everything but patterns grows
/// with the largest value, because the order of sums differs between processors.
double bound(const Golden& golden, const std::string& kind, const GoldenArray& want) {
  const double stored = kind.starts_with("scores") ? 2e-5 : golden.array("bound_" + kind).values.at(0);
  if (kind.starts_with("pattern")) return stored;
  double largest = 0;
  for (const double value : want.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return std::max(1.25 * stored, 3e-6 * largest);
}

/// One component of a model for one input.
struct Part {
  const Golden& golden;
  const attnctl::model::ModelConfig& config;
  attnctl::model::Component component;
  std::string input;

  [[nodiscard]] std::string kind(const std::string& name) const {
    return name + attnctl::test::component_suffix(component);
  }
  [[nodiscard]] bool has(std::size_t layer) const { return config.layers[layer].component == component; }
};

void check_heads(const Part& part, const std::string& name, const CapturedSequence& captured,
                 attnctl::OwnedMatrix<float> attnctl::test::CapturedHead::*what) {
  const std::string kind = part.kind(name);
  if (!part.golden.has(kind + "_" + part.input)) return;
  const GoldenArray want = part.golden.array(kind + "_" + part.input);
  CAPTURE(kind);
  double worst = 0;
  std::size_t offset = 0;
  for (const auto& [id, head] : captured.heads) {
    if (!part.has(id.layer)) continue;
    const auto& got = head.*what;
    worst = std::max(worst, difference(want, offset, got));
    offset += got.values().size();
  }
  CHECK(offset == want.values.size());
  // Goldens store no bound for scores: bound() gives one.
  CHECK(worst <= bound(part.golden, kind, want));
}

void check_output(const Part& part, const CapturedSequence& captured) {
  const std::string kind = part.kind("output");
  CHECK(captured.output.empty() == !part.golden.has(kind + "_" + part.input));
  if (captured.output.empty()) return;
  const GoldenArray want = part.golden.array(kind + "_" + part.input);
  double worst = 0;
  std::size_t offset = 0;
  for (const auto& [layer, values] : captured.output) {
    if (!part.has(layer)) continue;
    worst = std::max(worst, difference(want, offset, values));
    offset += values.values().size();
  }
  CAPTURE(kind);
  CHECK(offset == want.values.size());
  CHECK(worst <= bound(part.golden, kind, want));
}

void check_logits(const Golden& golden, const std::string& input, const CapturedSequence& captured) {
  if (!golden.has("logits_" + input))
    return;  // a class without an output head wrote the golden; the checkpoint may have tied weights
  const GoldenArray want = golden.array("logits_" + input);
  CHECK(captured.logits.values().size() == want.values.size());
  CHECK(difference(want, 0, captured.logits) <= bound(golden, "logits", want));
}

}  // namespace

TEST_CASE("patterns, scores, z, output and logits equal every golden") {
  using attnctl::test::CapturedHead;
  for (const auto& directory : attnctl::test::golden_models()) {
    CAPTURE(directory.filename().string());
    const Golden golden(directory);
    attnctl::Warnings warnings;
    const attnctl::model::Model model = attnctl::test::bind_model(directory, warnings);
    attnctl::input::Batch batch;
    for (std::size_t i = 0; i < golden.inputs(); ++i) batch.sequences.push_back(golden.sequence(i));
    const auto captured = attnctl::test::capture_all(model, batch, {.threads = 3, .panel_rows = 4});
    REQUIRE_FALSE(captured.empty());
    for (std::size_t i = 0; i < captured.size(); ++i) {
      const std::string input = std::to_string(i);
      CAPTURE(input);
      for (const attnctl::model::Component component : attnctl::test::components_of(model.config())) {
        const Part part = {golden, model.config(), component, input};
        check_heads(part, "pattern", captured[i], &CapturedHead::pattern);
        check_heads(part, "scores", captured[i], &CapturedHead::scores);
        check_heads(part, "z", captured[i], &CapturedHead::z);
        check_output(part, captured[i]);
      }
      check_logits(golden, input, captured[i]);
    }
  }
}

namespace {

/// Finds the largest logit of the last position.
class LastArgmax final : public attnctl::forward::Observer {
 public:
  [[nodiscard]] attnctl::forward::Needs needs() const override {
    attnctl::forward::Needs needs;
    needs.logits = true;
    return needs;
  }
  void begin(const attnctl::model::Model& /*model*/, const attnctl::input::Batch& /*batch*/) override {}
  void panel(const attnctl::forward::AttentionPanel& /*panel*/) override {}
  void logits(std::size_t /*sequence*/, std::size_t /*first_query*/,
              attnctl::MatrixView<const float> values) override {
    const auto last = values.row(values.rows - 1);
    token = std::max_element(last.begin(), last.end()) - last.begin();
  }
  std::int64_t token = 0;
};

/// Joins tokens to text. Byte tokens such as "<0x0A>" become bytes, the metaspace becomes a space, and the
/// space before the first word is removed.
std::string text_of(const attnctl::tokenizer::Vocabulary& vocabulary, const std::vector<std::int64_t>& ids) {
  std::string text;
  for (const std::int64_t id : ids) {
    if (vocabulary.is_special(id)) continue;
    std::string piece(vocabulary.token(id).value());
    if (piece.size() == 6 && piece.starts_with("<0x")) {
      unsigned byte = 0;
      std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
      piece = static_cast<char>(byte);
    }
    const std::string metaspace = "\u2581";
    for (std::size_t at = piece.find(metaspace); at != std::string::npos; at = piece.find(metaspace)) {
      piece.replace(at, metaspace.size(), " ");
    }
    text += piece;
  }
  return text.starts_with(' ') ? text.substr(1) : text;
}

}  // namespace

TEST_CASE("200 steps of greedy decoding give the story of the reference") {
  const std::filesystem::path directory =
      std::filesystem::path(ATTNCTL_SHARED_DIR) / "models" / "stories260K";
  if (!std::filesystem::exists(directory)) {
    MESSAGE("skipped: no shared models at " << directory.string());
    return;
  }
  attnctl::Warnings warnings;
  const attnctl::model::Model model = attnctl::model::Model::bind(
      attnctl::checkpoint::open_model_source(directory.string(), {}, warnings), warnings);
  const attnctl::tokenizer::Vocabulary vocabulary = attnctl::tokenizer::read_vocabulary({directory});
  attnctl::Pool pool(2);
  attnctl::forward::RunContext context{.pool = pool, .warnings = warnings};
  attnctl::input::Batch batch;
  std::vector<std::int64_t>& ids = batch.sequences.emplace_back().ids;
  ids = {vocabulary.id("<s>").value()};
  for (int step = 0; step < 200; ++step) {
    LastArgmax last;
    attnctl::forward::Observer* const observers[] = {&last};
    attnctl::forward::run_forward(model, batch, attnctl::forward::Selection::all(model.config()), observers,
                                  context);
    ids.push_back(last.token);
  }
  std::string want = attnctl::test::slurp(directory / "golden.txt");
  while (want.ends_with('\n')) want.pop_back();
  CHECK(text_of(vocabulary, ids) == want);
}
