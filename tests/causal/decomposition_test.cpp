#include "causal/decomposition.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "causal/interventions.hpp"
#include "reference/reference.hpp"
#include "support/intervention_golden.hpp"
#include "support/memory_checkpoint.hpp"

namespace attnctl::test {
namespace {

namespace fs = std::filesystem;

/// Keeps the logits, and the products scale q k^T of all heads with a soft cap if the model has one.
class Products final : public forward::Observer {
 public:
  [[nodiscard]] forward::Needs needs() const override { return {.logits = true}; }
  void begin(const model::Model& model, const input::Batch& /*batch*/) override { config_ = &model.config(); }
  void panel(const forward::AttentionPanel& panel) override {
    const model::AttentionConfig& config = config_->layers[panel.layer].attention;
    for (std::size_t r = 0; r < panel.q.rows; ++r) {
      for (std::size_t key = 0; key < panel.k.rows; ++key) {
        double sum = 0;
        for (std::size_t c = 0; c < panel.q.cols; ++c) sum += double{panel.q(r, c)} * double{panel.k(key, c)};
        sum *= config.scale;
        if (config.soft_cap > 0) sum = double{config.soft_cap} * std::tanh(sum / double{config.soft_cap});
        scores[{panel.layer, panel.head}][{panel.first_query + r, key}] = sum;
      }
    }
  }
  void logits(std::size_t /*sequence*/, std::size_t /*first_query*/,
              MatrixView<const float> values) override {
    for (std::size_t r = 0; r < values.rows; ++r)
      rows.emplace_back(values.row(r).begin(), values.row(r).end());
  }

  std::map<std::pair<std::size_t, std::size_t>, std::map<std::pair<std::size_t, std::size_t>, double>> scores;
  std::vector<std::vector<float>> rows;  // [queries][vocabulary]

 private:
  const model::ModelConfig* config_ = nullptr;
};

struct Decomposed {
  std::size_t logits = 0, scores = 0;
};

/// Checks the sums of one model. Returns the number of sums.
Decomposed check_sums(const model::Model& model, const input::Batch& batch) {
  Decomposed count;
  Warnings warnings;
  const model::ModelConfig& config = model.config();
  Pool pool(1);
  forward::RunContext context{.pool = pool, .warnings = warnings};
  const causal::RecordedSequence recorded = std::move(causal::record(model, batch, true, context).front());
  Products products;
  forward::Observer* const observers[] = {&products};
  forward::run_forward(model, batch, forward::Selection::all(config), observers, context);
  const std::size_t n = products.rows.size();
  const std::vector<std::int64_t> tokens = {0, 1, 7, static_cast<std::int64_t>(products.rows[0].size()) - 1};
  for (const std::size_t position : {std::size_t{0}, n / 2, n - 1}) {
    const causal::LogitParts parts = causal::logit_parts(model, recorded, position, tokens, context);
    const std::vector<float>& row = products.rows[position];
    const double largest = std::abs(*std::ranges::max_element(row, {}, [](float x) { return std::abs(x); }));
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      double sum = parts.constant[t];
      for (std::size_t w = 0; w < parts.writers.size(); ++w) sum += parts.parts(w, t);
      CHECK(std::abs(sum - double{row[static_cast<std::size_t>(tokens[t])]}) <= 1e-5 * largest);
      ++count.logits;
    }
  }
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    const bool summable = config.layers[layer].attention.clip == 0;
    for (std::size_t head = 0; summable && head < config.layers[layer].attention.heads; ++head) {
      const auto& of_head = products.scores[{layer, head}];
      double largest = 0;
      for (const auto& [place, score] : of_head) largest = std::max(largest, std::abs(score));
      const std::size_t last = recorded.streams[layer].rows() - 1;
      // In cross-attention, the keys are the tokens of the input.
      const bool cross = config.layers[layer].component == model::Component::cross;
      const std::size_t last_key = cross ? recorded.memory.rows() - 1 : last;
      for (const auto& [query, key] : {std::pair(last, last_key / 2), std::pair(last, std::size_t{0})}) {
        const causal::ScoreParts parts =
            causal::score_parts(model, recorded, {layer, head}, query, key, context);
        double sum = 0;
        for (const double value : parts.parts.values()) sum += value;
        CHECK(std::abs(sum - of_head.at({query, key})) <= 1e-5 * std::max(largest, 1e-3));
        ++count.scores;
      }
    }
  }
  return count;
}

TEST_CASE("the parts of logits and scores add up to them in every family") {
  std::size_t models = 0, sums = 0;
  for (const fs::path& file : goldens_of_models("interventions")) {
    Warnings warnings;
    const InterventionGolden one(file, warnings);
    CAPTURE(one.name);
    const input::Batch batch = batch_of(one.golden);
    const std::vector<model::LayerConfig>& layers = one.model.config().layers;
    const auto convolves = [](const model::LayerConfig& layer) { return layer.convolution != nullptr; };
    if (std::ranges::any_of(layers, convolves)) {
      CHECK_THROWS_WITH_AS(check_sums(one.model, batch), doctest::Contains("convolution"), Error);
      continue;
    }
    const Decomposed count = check_sums(one.model, batch);
    CHECK(count.logits == 12);
    const bool clamps = layers.front().attention.clip > 0;
    CHECK((count.scores > 0) == !clamps);
    sums += count.logits + count.scores;
    ++models;
  }
  CHECK(models >= 79);
  CHECK(sums > 2000);
}

TEST_CASE("the parts of logits and scores add up to them if norms replace the residual stream") {
  const model::Model model =
      MemoryModel::golden("bloom").patched(R"({"apply_residual_connection_post_layernorm": true})").bound();
  REQUIRE(model.config().layers[1].place == model::NormPlace::stream);
  input::Batch batch;
  batch.sequences.emplace_back().ids = {5, 9, 3, 7, 11, 2};
  CHECK(check_sums(model, batch).scores > 0);
}

/// Returns the place of each writer in an array of tests/golden/attributions with `count` writers; the last
/// one is that of the constant.
std::vector<std::size_t> golden_places(const std::vector<causal::Writer>& writers, std::size_t heads,
                                       std::size_t count) {
  std::vector<std::size_t> places;
  for (const causal::Writer& writer : writers) {
    const std::size_t first = 1 + writer.layer * (heads + 3);
    switch (writer.kind) {
      case causal::Writer::Origin::embedding:
        places.push_back(0);
        break;
      case causal::Writer::Origin::head:
        places.push_back(first + writer.head);
        break;
      case causal::Writer::Origin::attention_bias:
        places.push_back(first + heads);
        break;
      case causal::Writer::Origin::mlp:
        places.push_back(first + heads + 1);
        break;
      case causal::Writer::Origin::norm_bias:
        places.push_back(first + heads + 2);
        break;
    }
  }
  places.push_back(count - 1);
  return places;
}

/// Returns the largest difference of two arrays, divided by the largest wanted value.
double relative_difference(std::span<const double> got, std::span<const double> want) {
  REQUIRE(got.size() == want.size());
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    if (!(std::abs(got[i] - want[i]) <= difference)) difference = std::abs(got[i] - want[i]);
  }
  REQUIRE(largest > 0);
  return difference / largest;
}

/// Returns the numbers of index i of the first axis.
std::span<const double> golden_row(const GoldenArray& array, std::size_t i) {
  const std::size_t size = array.values.size() / array.shape[0];
  return std::span(array.values).subspan(i * size, size);
}

/// Records a sequence in the float64 pass.
causal::RecordedValues<double> record_in_float64(const model::Model& model, const input::Sequence& sequence,
                                                 Pool& pool) {
  causal::RecordedValues<double> recorded;
  const auto keep = [](std::vector<OwnedMatrix<double>>& kept) {
    return [&kept](std::size_t layer, MatrixView<double> values) {
      kept.resize(layer + 1);
      kept[layer] = OwnedMatrix<double>(values.rows, values.cols);
      std::copy_n(values.data, values.rows * values.cols, kept[layer].values().begin());
    };
  };
  reference::ReferencePass pass =
      reference::run_reference(model, sequence, model.config().layers.size() - 1, true, pool,
                               {.heads = keep(recorded.z), .mlp = keep(recorded.mlp)});
  for (reference::ReferenceLayer& layer : pass.layers) recorded.streams.push_back(std::move(layer.stream));
  return recorded;
}

struct GoldenCount {
  std::size_t models = 0, scores = 0;
};

/// The largest difference of parts, divided by the largest part of their logit or score.
struct Bounds {
  double position_in_scores = 0, others = 0;  // models with positions in their scores, and others
};

/// Compares the parts of all goldens with those from values that `record` returns for (golden, model, pool).
template <typename Record>
GoldenCount check_goldens(const Bounds& bounds, const Record& record) {
  GoldenCount checked;
  for (const fs::path& file : goldens_of_models("attributions")) {
    const std::string name = file.stem().string();
    CAPTURE(name);
    const Golden golden(file);
    Warnings warnings;
    const model::Model model = bind_model(model_folder(name), warnings);
    const std::size_t heads = model.config().layers[0].attention.heads;
    const double bound = model.config().position_in_scores() ? bounds.position_in_scores : bounds.others;
    Pool pool(1);
    forward::RunContext context{.pool = pool, .warnings = warnings};
    const auto recorded = record(golden, model, pool);
    const std::vector<std::int64_t> positions = golden.integers("positions"),
                                    tokens = golden.integers("tokens");
    const GoldenArray logit_terms = golden.array("logit_terms"), score_terms = golden.array("score_terms");
    const std::size_t count = logit_terms.shape.at(1);  // of writers
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const causal::LogitParts parts = causal::logit_parts(
          model, recorded, static_cast<std::size_t>(positions[i]), std::span(tokens).subspan(i, 1), context);
      const std::vector<std::size_t> places = golden_places(parts.writers, heads, count);
      std::vector<double> got(count, 0.0);
      for (std::size_t w = 0; w < parts.writers.size(); ++w) got.at(places[w]) += parts.parts(w, 0);
      got.back() += parts.constant[0];
      CHECK(relative_difference(got, golden_row(logit_terms, i)) <= bound);
    }
    const std::vector<std::int64_t> scores = golden.integers("scores");  // [scores][layer, head, query, key]
    for (std::size_t i = 0; 4 * i < scores.size(); ++i) {
      const auto at = [&](std::size_t j) { return static_cast<std::size_t>(scores[4 * i + j]); };
      const causal::ScoreParts parts =
          causal::score_parts(model, recorded, {at(0), at(1)}, at(2), at(3), context);
      const std::vector<std::size_t> of_query = golden_places(parts.query_writers, heads, count),
                                     of_key = golden_places(parts.key_writers, heads, count);
      std::vector<double> got(count * count, 0.0);
      for (std::size_t q = 0; q < of_query.size(); ++q) {
        for (std::size_t k = 0; k < of_key.size(); ++k)
          got.at(of_query[q] * count + of_key[k]) += parts.parts(q, k);
      }
      CHECK(relative_difference(got, golden_row(score_terms, i)) <= bound);
      ++checked.scores;
    }
    ++checked.models;
  }
  return checked;
}

TEST_CASE("the parts of logits and scores equal those of PyTorch in every family") {
  const GoldenCount checked =
      check_goldens({1e-4, 1e-4}, [](const Golden& golden, const model::Model& model, Pool& pool) {
        Warnings warnings;
        forward::RunContext context{.pool = pool, .warnings = warnings};
        return std::move(causal::record(model, batch_of(golden), true, context).front());
      });
  CHECK(checked.models >= 55);
  CHECK(checked.scores >= 108);
}

TEST_CASE("the parts of logits and scores in the float64 pass are those of PyTorch") {
  // Positions in scores are float32 numbers of two libraries, which differ in the last bit.
  const GoldenCount checked =
      check_goldens({1e-6, 1e-9}, [](const Golden& golden, const model::Model& model, Pool& pool) {
        return record_in_float64(model, batch_of(golden).sequences.front(), pool);
      });
  CHECK(checked.models >= 55);
  CHECK(checked.scores >= 108);
}

/// Checks that the direct effect of removing each head is minus its part of the logits.
void check_direct_effects(const model::Model& model, const input::Batch& batch) {
  Pool pool(1);
  Warnings warnings;
  forward::RunContext context{.pool = pool, .warnings = warnings};
  const std::vector<std::int64_t>& ids = batch.sequences[0].predicted().ids;
  const std::size_t query = ids.size() - 2;
  const std::int64_t target = ids.back();
  const std::vector<causal::ScoredQueries> scored = {{{query}, {target}, {}}};
  const std::vector<double> mean = causal::mean_output_row(model, pool);
  const causal::CausalPass pass(
      {.model = model, .batch = batch, .scored = scored, .answer = {}, .mlps = true, .mean_output = mean},
      context);
  std::vector<std::int64_t> all(model.config().output_embedding().vocabulary);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  const causal::LogitParts parts = causal::logit_parts(model, pass.recorded()[0], query, all, context);
  std::vector<causal::Intervention> removals;
  std::vector<double> expected;
  for (std::size_t w = 0; w < parts.writers.size(); ++w) {
    if (parts.writers[w].kind != causal::Writer::Origin::head) continue;
    double average = 0;
    for (std::size_t t = 0; t < all.size(); ++t)
      average += parts.parts(w, t) / static_cast<double>(all.size());
    removals.push_back({0, {{{parts.writers[w].layer, parts.writers[w].head}, {}}}, {}});
    expected.push_back(average - parts.parts(w, static_cast<std::size_t>(target)));
  }
  CHECK(removals.size() >= 4);
  causal::Intervention together;
  for (const causal::Intervention& removal : removals) together.heads.push_back(removal.heads.front());
  removals.push_back(together);
  expected.push_back(std::accumulate(expected.begin(), expected.end(), 0.0));
  const std::vector<causal::Effect> resident = pass.run(removals, context);
  context.streamed_rows = 1;
  const std::vector<causal::Effect> streamed = pass.run(removals, context);
  for (std::size_t i = 0; i < removals.size(); ++i) {
    CHECK(resident[i].direct == doctest::Approx(expected[i]).epsilon(1e-4));
    CHECK(streamed[i].direct == resident[i].direct);
    CHECK(streamed[i].loss == resident[i].loss);
  }
}

TEST_CASE("the direct effect of removing heads is minus their parts of the logits") {
  for (const std::string name : {"tiny-llama", "t5", "t5-own-head", "mbart", "pegasus"}) {
    CAPTURE(name);
    Warnings warnings;
    const InterventionGolden one(ATTNCTL_SOURCE_DIR "/tests/golden/interventions/" + name + ".npz", warnings);
    check_direct_effects(one.model, batch_of(one.golden));
  }
}

TEST_CASE("direct effects are right for weights that stay as stored") {
  input::Batch batch;
  batch.sequences.emplace_back().ids = {1, 5, 9, 2, 7, 7, 3};
  for (const std::string name : {"llama-f16", "gguf/llama-q8_0.gguf", "gguf/gpt2-f32.gguf"}) {
    CAPTURE(name);
    Warnings warnings;
    check_direct_effects(bind_model(ATTNCTL_SOURCE_DIR "/tests/golden/" + name, warnings), batch);
  }
}

}  // namespace
}  // namespace attnctl::test
