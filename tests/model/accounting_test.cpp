#include "model/accounting/accounting.hpp"

#include <algorithm>
#include <fstream>
#include <limits>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "model/families/presets.hpp"
#include "support/golden.hpp"

using attnctl::count_parameters;

TEST_CASE("parameter counts from configurations equal the bound parameters of every golden model") {
  for (const auto& directory : attnctl::test::golden_models()) {
    CAPTURE(directory.filename().string());
    attnctl::Warnings warnings;
    const attnctl::Model model = attnctl::test::bind_model(directory, warnings);
    CHECK(count_parameters(model.config()).all == model.parameters());
  }
}

TEST_CASE("published architectures have as many parameters as in transformers") {
  std::ifstream file(ATTNCTL_SOURCE_DIR "/tests/golden/preset_parameters.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  REQUIRE(golden.size() == attnctl::presets().size());
  for (const attnctl::Preset& preset : attnctl::presets()) {
    CAPTURE(preset.name);
    const nlohmann::json& want = golden.at(preset.name);
    const auto count = count_parameters(preset.config);
    CHECK(count.attention == want.at("attention").get<std::uint64_t>());
    if (want.contains("all")) CHECK(count.all == want["all"].get<std::uint64_t>());
    const std::size_t layers = preset.config.layers.size();
    const std::uint64_t both_stacks = count.attention / layers * preset.attentions;
    CHECK(both_stacks == want.value("both_stacks", count.attention));
  }
  CHECK(golden.at("gpt2-xl").at("all") == 1'557'611'200);  // as published
}

namespace {

/// A column of a table as numbers.
std::vector<std::int64_t> column(const attnctl::Table& table, const std::string& name) {
  const auto place = std::ranges::find(table.columns, name) - table.columns.begin();
  std::vector<std::int64_t> values;
  std::vector<attnctl::Cell> cells(table.columns.size());
  for (std::size_t i = 0; i < table.rows; ++i) {
    table.row(i, cells);
    values.push_back(std::get<std::int64_t>(cells.at(static_cast<std::size_t>(place))));
  }
  return values;
}

}  // namespace

TEST_CASE("compare_attention has one head, several heads, groups and one key/value head") {
  using Numbers = std::vector<std::int64_t>;
  const auto table = attnctl::compare_attention(attnctl::bare_config({.d_model = 512, .heads = 8}), 10);
  REQUIRE(table.rows == 4);
  CHECK(column(table, "heads") == Numbers{1, 8, 8, 8});
  CHECK(column(table, "kv_heads") == Numbers{1, 8, 2, 1});
  CHECK(column(table, "d_head") == Numbers{512, 64, 64, 64});
  const std::int64_t d = 512;
  const std::int64_t n = 10;
  CHECK(column(table, "parameters") ==
        Numbers{4 * d * d, 4 * d * d, 2 * d * d + 2 * d * 2 * 64, 2 * d * d + 2 * d * 64});
  CHECK(column(table, "multiply_adds") == Numbers{4 * n * d * d + 2 * n * n * d,
                                                  4 * n * d * d + 2 * n * n * d,
                                                  2 * n * d * d + 4 * n * d * 64 + 2 * n * n * d,
                                                  2 * n * d * d + 2 * n * d * 64 + 2 * n * n * d});
  CHECK(column(table, "multiply_adds_one_product")[1] == 3 * n * d * d + n * n * d + n * d * d);
  CHECK(column(table, "pattern_bytes") == Numbers{400, 3200, 3200, 3200});
  CHECK(column(table, "cache_bytes_per_token") == Numbers{4096, 4096, 1024, 512});
}

TEST_CASE("compare_attention uses the model's groups, otherwise about a quarter of the heads") {
  struct Row {
    std::size_t heads, kv_heads;
    std::vector<std::int64_t> want;
  };
  for (const Row& row : {Row{1, 1, {1}}, Row{2, 2, {1, 2, 1}}, Row{4, 4, {1, 4, 2, 1}},
                         Row{12, 12, {1, 12, 3, 1}}, Row{25, 25, {1, 25, 5, 1}}, Row{7, 7, {1, 7, 1}},
                         Row{64, 8, {1, 64, 8, 1}}, Row{64, 1, {1, 64, 16, 1}}}) {
    CAPTURE(row.heads);
    const auto config =
        attnctl::bare_config({.d_model = 64 * row.heads, .heads = row.heads, .kv_heads = row.kv_heads});
    CHECK(column(attnctl::compare_attention(config, 4), "kv_heads") == row.want);
  }
  // The row of the model itself has the parameters that are counted for its layers, biases too.
  for (const attnctl::Preset& preset : attnctl::presets()) {
    CAPTURE(preset.name);
    const auto table = attnctl::compare_attention(preset.config, 512);
    std::vector<attnctl::Cell> cells(table.columns.size());
    std::size_t own = 0;
    for (std::size_t i = 0; i < table.rows; ++i) {
      table.row(i, cells);
      if (!std::get<bool>(cells[1])) continue;
      ++own;
      CHECK(std::get<std::int64_t>(cells[5]) ==
            static_cast<std::int64_t>(count_parameters(preset.config).layers[0].attention));
    }
    CHECK(own == 1);
  }
}

TEST_CASE("every preset has the sizes in the table of the textbooks") {
  struct Row {
    const char* preset;
    std::size_t d, heads, d_head, layers;
  };
  const Row rows[] = {{"transformer-base", 512, 8, 64, 6}, {"transformer-big", 1024, 16, 64, 6},
                      {"bert-base", 768, 12, 64, 12},      {"bert-large", 1024, 16, 64, 24},
                      {"gpt2", 768, 12, 64, 12},           {"gpt2-medium", 1024, 16, 64, 24},
                      {"gpt2-large", 1280, 20, 64, 36},    {"gpt2-xl", 1600, 25, 64, 48},
                      {"gpt3", 12288, 96, 128, 96},        {"llama-7b", 4096, 32, 128, 32},
                      {"llama-65b", 8192, 64, 128, 80},    {"llama2-70b", 8192, 64, 128, 80}};
  CHECK(std::size(rows) == attnctl::presets().size());
  for (const Row& row : rows) {
    CAPTURE(std::string(row.preset));
    const attnctl::ModelConfig& config = attnctl::preset_named(row.preset).config;
    CHECK(config.d_model == row.d);
    CHECK(config.layers.size() == row.layers);
    CHECK(config.layers[0].attention.heads == row.heads);
    CHECK(config.layers[0].attention.d_head == row.d_head);
  }
  CHECK(&attnctl::preset_named("gpt2-small") == &attnctl::preset_named("gpt2"));
  CHECK(&attnctl::preset_named("llama-2-70b") == &attnctl::preset_named("llama2-70b"));
  CHECK_THROWS_WITH_AS(static_cast<void>(attnctl::preset_named("gpt5")),
                       doctest::Contains("transformer-big, bert-base (bert-base-uncased), bert-large"),
                       attnctl::Error);
}

TEST_CASE("attention has 4 d^2 parameters per layer and equal FLOPs for any number of heads") {
  const std::uint64_t d = 512;
  const std::uint64_t n = 10;
  for (const std::size_t heads : {1UL, 2UL, 8UL, 64UL}) {
    CAPTURE(heads);
    const auto config = attnctl::bare_config({.d_model = d, .heads = heads});
    const auto parameters = count_parameters(config);
    CHECK(parameters.all == 4 * d * d);
    CHECK(parameters.attention_weights == 4 * d * d);
    CHECK(parameters.layers[0].query == d * d);
    CHECK(parameters.layers[0].output == d * d);
    const auto flops = attnctl::count_flops(config, n);
    CHECK(flops.projections == 6 * n * d * d);
    CHECK(flops.scores == 2 * n * n * d);
    CHECK(flops.values == 2 * n * n * d);
    CHECK(flops.output == 2 * n * d * d);
    CHECK(flops.all == 2 * (4 * n * d * d + 2 * n * n * d));
    CHECK(attnctl::count_pattern_memory(config, n).all == heads * n * n * 4);
  }
}

TEST_CASE("counts include biases, shared layers and key/value heads") {
  const auto bert = count_parameters(attnctl::preset_named("bert-base").config);
  CHECK(bert.attention_weights == 12ULL * 4 * 768 * 768);
  CHECK(bert.attention == 12ULL * 4 * (768 * 768 + 768));
  CHECK(bert.mlp == 12ULL * (2 * 768 * 3072 + 3072 + 768));
  CHECK(bert.norms == (2ULL * 12 + 1) * 2 * 768);
  CHECK(bert.embedding == (30522ULL + 512 + 2) * 768);
  CHECK(bert.head == 768ULL * 768 + 3ULL * 768 + 30522);

  attnctl::Warnings warnings;
  const auto albert = attnctl::test::bind_model(ATTNCTL_SOURCE_DIR "/tests/golden/albert", warnings);
  const auto shared = count_parameters(albert.config());  // 5 layers in 2 groups
  CHECK(shared.layers.size() == 5);
  CHECK(shared.attention == 2 * shared.layers[0].attention);

  // 2 (keys and values) * layers * kv heads * d_head * 4 bytes
  CHECK(attnctl::count_cache_bytes(attnctl::preset_named("llama-65b").config) == 2ULL * 80 * 64 * 128 * 4);
  CHECK(attnctl::count_cache_bytes(attnctl::preset_named("llama2-70b").config, 2) == 2ULL * 80 * 8 * 128 * 2);
  CHECK(attnctl::count_cache_bytes(attnctl::bare_config({.d_model = 512, .heads = 8, .kv_heads = 1})) ==
        2 * 64 * 4);
  const auto multi_query =
      count_parameters(attnctl::bare_config({.d_model = 512, .heads = 8, .kv_heads = 1}));
  CHECK(multi_query.all == 2 * 512 * 512 + 2 * 512 * 64);
}

TEST_CASE("FLOPs include the MLP and the head") {
  const auto& config = attnctl::preset_named("llama-7b").config;
  const auto flops = attnctl::count_flops(config, 3);
  CHECK(flops.mlp == 2ULL * 3 * 32 * 3 * 4096 * 11008);
  CHECK(flops.head == 2ULL * 3 * 4096 * 32000);
  CHECK(flops.all == flops.projections + flops.scores + flops.values + flops.output + flops.mlp + flops.head);
}

TEST_CASE("each kind of attention costs the pairs that it computes") {
  for (const char* text : {"window:1", "window:3", "window:50", "block:1", "block:4", "block:50", "strided:1",
                           "strided:3", "strided:5", "strided:50"}) {
    const attnctl::AttentionKind kind = attnctl::parse_attention_kind(text).value();
    for (const bool causal : {false, true}) {
      for (std::size_t n = 1; n <= 17; ++n) {
        CAPTURE(text);
        CAPTURE(causal);
        CAPTURE(n);
        std::uint64_t pairs = 0;
        for (std::size_t i = 0; i < n; ++i) {
          for (std::size_t j = 0; j < n; ++j) {
            const std::size_t apart = i > j ? i - j : j - i;
            const bool visible = kind.rule == attnctl::AttentionKind::Rule::window ? apart < kind.size
                                 : kind.rule == attnctl::AttentionKind::Rule::block
                                     ? i / kind.size == j / kind.size
                                     : apart < kind.size || apart % kind.size == 0;
            if (visible && (!causal || j <= i)) ++pairs;
          }
        }
        attnctl::ModelConfig config = attnctl::bare_config({.d_model = 12, .heads = 3, .layers = 2});
        for (attnctl::LayerConfig& layer : config.layers) {
          layer.attention.kind = kind;
          layer.attention.causal = causal;
        }
        CHECK(attnctl::count_flops(config, n).scores == 2 * 2 * 3 * 4 * pairs);
        CHECK(attnctl::count_flops(config, n).values == 2 * 2 * 3 * 4 * pairs);
        CHECK(attnctl::count_pattern_memory(config, n).layer == 4 * 3 * pairs);
      }
    }
  }
  attnctl::ModelConfig linear = attnctl::bare_config({.d_model = 12, .heads = 3, .layers = 1});
  linear.layers[0].attention.kind = attnctl::parse_attention_kind("linear").value();
  CHECK(attnctl::count_flops(linear, 100).values == std::uint64_t{2} * 100 * (3 + 3) * 4 * 4);
  CHECK(attnctl::count_flops(linear, 100).scores == std::uint64_t{2} * 100 * (3 + 3) * 4);
  CHECK(attnctl::count_pattern_memory(linear, 100).all == 0);
  CHECK(attnctl::count_cache_bytes(linear) == 0);
}

TEST_CASE("shape_walk gives the textbook shapes for batch 2, n 10, d 512, 8 heads") {
  const auto config = attnctl::bare_config({.d_model = 512, .heads = 8});
  const attnctl::Table table = attnctl::shape_walk(config, 2, 10);
  CHECK(column_names(table) == std::vector<std::string>{"step", "tensor", "shape", "values"});
  std::vector<std::string> shapes;
  for (std::size_t i = 0; i < table.rows; ++i) {
    std::vector<attnctl::Cell> cells(table.columns.size());
    table.row(i, cells);
    shapes.push_back(std::get<std::string>(cells[2]));
  }
  CHECK(shapes == std::vector<std::string>{"[2, 10, 512]", "[2, 10, 512]", "[2, 10, 512]", "[2, 10, 512]",
                                           "[2, 10, 8, 64]", "[2, 8, 10, 64]", "[2, 8, 10, 64]",
                                           "[2, 8, 10, 64]", "[2, 8, 10, 10]", "[2, 8, 10, 10]",
                                           "[2, 8, 10, 64]", "[2, 10, 512]", "[2, 10, 512]"});
}

TEST_CASE("wrong and excessive sizes are reported") {
  struct Row {
    attnctl::BareSizes sizes;
    attnctl::Status status;
    const char* message;
  };
  for (const Row& row : {
           Row{{.d_model = 10, .heads = 3}, attnctl::Status::usage, "multiple of 3 heads"},
           Row{{.d_model = 8, .heads = 4, .kv_heads = 3},
               attnctl::Status::usage,
               "multiple of 3 key/value heads"},
           Row{{.d_model = 0, .heads = 4}, attnctl::Status::usage, "at least 1"},
           Row{{.d_model = 8, .heads = 0}, attnctl::Status::usage, "at least 1"},
           Row{{.d_model = 8, .heads = 2, .layers = 1'000'000'000},
               attnctl::Status::limit,
               "1000000000 layers"},
       }) {
    CAPTURE(std::string(row.message));
    try {
      static_cast<void>(attnctl::bare_config(row.sizes));
      FAIL("accepted");
    } catch (const attnctl::Error& error) {
      CHECK(error.status() == row.status);
      CHECK_MESSAGE(std::string(error.what()).find(row.message) != std::string::npos, error.what());
    }
  }
  const auto config = attnctl::bare_config({.d_model = 8, .heads = 2});
  CHECK_THROWS_AS(
      static_cast<void>(attnctl::count_flops(config, std::numeric_limits<std::size_t>::max() / 2)),
      attnctl::Error);
}
