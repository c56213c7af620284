#include "model/accounting/accounting.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "model/families/presets.hpp"
#include "support/golden.hpp"
#include "support/memory_checkpoint.hpp"

using attnctl::model::count_parameters;

TEST_CASE("parameter counts from configurations equal the bound parameters of every golden model") {
  for (const auto& directory : attnctl::test::golden_models()) {
    CAPTURE(directory.filename().string());
    attnctl::Warnings warnings;
    const attnctl::model::Model model = attnctl::test::bind_model(directory, warnings);
    CHECK(count_parameters(model.config()).all == model.parameters());
  }
}

TEST_CASE("published architectures have the same numbers of parameters as in transformers") {
  std::ifstream file(ATTNCTL_SOURCE_DIR "/tests/golden/preset_parameters.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  REQUIRE(golden.size() == attnctl::model::presets().size());
  for (const attnctl::model::Preset& preset : attnctl::model::presets()) {
    CAPTURE(std::string(preset.name));
    const nlohmann::json& want = golden.at(std::string(preset.name));
    const auto count = count_parameters(preset.config());
    CHECK(count.attention == want.at("attention").get<std::uint64_t>());
    if (want.contains("all")) CHECK(count.all == want["all"].get<std::uint64_t>());
    const std::size_t layers = preset.config().layers.size();
    const std::uint64_t both_stacks = count.attention / layers * preset.attentions();
    CHECK(both_stacks == want.value("both_stacks", count.attention));
  }
  CHECK(golden.at("gpt2-xl").at("all") == 1'557'611'200);  // as published
}

namespace {

/// A column of a table as numbers.
std::vector<std::int64_t> column(const attnctl::Table& table, const std::string& name) {
  const auto place = std::ranges::find(table.columns, name, &attnctl::Column::name) - table.columns.begin();
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
  const auto table =
      attnctl::model::compare_attention(attnctl::model::bare_config({.d_model = 512, .heads = 8}), 10);
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
    const auto config = attnctl::model::bare_config(
        {.d_model = 64 * row.heads, .heads = row.heads, .kv_heads = row.kv_heads});
    CHECK(column(attnctl::model::compare_attention(config, 4), "kv_heads") == row.want);
  }
  // The row of the model itself has the parameters that are counted for its layers, biases too.
  for (const attnctl::model::Preset& preset : attnctl::model::presets()) {
    CAPTURE(std::string(preset.name));
    const auto table = attnctl::model::compare_attention(preset.config(), 512);
    std::vector<attnctl::Cell> cells(table.columns.size());
    std::size_t own = 0;
    for (std::size_t i = 0; i < table.rows; ++i) {
      table.row(i, cells);
      if (!std::get<bool>(cells[1])) continue;
      ++own;
      CHECK(std::get<std::int64_t>(cells[5]) ==
            static_cast<std::int64_t>(count_parameters(preset.config()).layers[0].attention));
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
  CHECK(std::size(rows) == attnctl::model::presets().size());
  for (const Row& row : rows) {
    CAPTURE(std::string(row.preset));
    const attnctl::model::ModelConfig config = attnctl::model::preset_named(row.preset).config();
    CHECK(config.d_model == row.d);
    CHECK(config.layers.size() == row.layers);
    CHECK(config.layers[0].attention.heads == row.heads);
    CHECK(config.layers[0].attention.d_head == row.d_head);
  }
  CHECK(&attnctl::model::preset_named("gpt2-small") == &attnctl::model::preset_named("gpt2"));
  CHECK(&attnctl::model::preset_named("llama-2-70b") == &attnctl::model::preset_named("llama2-70b"));
  CHECK_THROWS_WITH_AS(static_cast<void>(attnctl::model::preset_named("gpt5")),
                       doctest::Contains("transformer-big, bert-base (bert-base-uncased), bert-large"),
                       attnctl::Error);
}

TEST_CASE("attention has 4 d^2 parameters per layer and equal FLOPs for any number of heads") {
  const std::uint64_t d = 512;
  const std::uint64_t n = 10;
  for (const std::size_t heads : {1UL, 2UL, 8UL, 64UL}) {
    CAPTURE(heads);
    const auto config = attnctl::model::bare_config({.d_model = d, .heads = heads});
    const auto parameters = count_parameters(config);
    CHECK(parameters.all == 4 * d * d);
    CHECK(parameters.attention == 4 * d * d);
    CHECK(parameters.layers[0].query == d * d);
    CHECK(parameters.layers[0].output == d * d);
    const auto flops = attnctl::model::count_flops(config, n);
    CHECK(flops.projections == 6 * n * d * d);
    CHECK(flops.scores == 2 * n * n * d);
    CHECK(flops.values == 2 * n * n * d);
    CHECK(flops.output == 2 * n * d * d);
    CHECK(flops.all == 2 * (4 * n * d * d + 2 * n * n * d));
    CHECK(attnctl::model::count_pattern_memory(config, n).all == heads * n * n * 4);
  }
}

TEST_CASE("counts include biases, shared layers and key/value heads") {
  const auto bert = count_parameters(attnctl::model::preset_named("bert-base").config());
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
  CHECK(attnctl::model::count_cache_bytes(attnctl::model::preset_named("llama-65b").config()) ==
        2ULL * 80 * 64 * 128 * 4);
  CHECK(attnctl::model::count_cache_bytes(attnctl::model::preset_named("llama2-70b").config()) ==
        2ULL * 80 * 8 * 128 * 4);
  CHECK(attnctl::model::count_cache_bytes(
            attnctl::model::bare_config({.d_model = 512, .heads = 8, .kv_heads = 1})) == 2 * 64 * 4);
  const auto multi_query =
      count_parameters(attnctl::model::bare_config({.d_model = 512, .heads = 8, .kv_heads = 1}));
  CHECK(multi_query.all == 2 * 512 * 512 + 2 * 512 * 64);
}

TEST_CASE("FLOPs include the MLP and the head") {
  const auto config = attnctl::model::preset_named("llama-7b").config();
  const auto flops = attnctl::model::count_flops(config, 3);
  CHECK(flops.mlp == 2ULL * 3 * 32 * 3 * 4096 * 11008);
  CHECK(flops.head == 2ULL * 3 * 4096 * 32000);
  CHECK(flops.all == flops.projections + flops.scores + flops.values + flops.output + flops.mlp + flops.head);
}

TEST_CASE("FLOPs of layers with experts include the router and the experts of a token") {
  using attnctl::test::MemoryModel;
  const auto mlp = [](const char* name, std::size_t n) {
    return attnctl::model::count_flops(MemoryModel::golden(name).bound().config(), n).mlp;
  };
  // width 18; 2 layers, each with 2 of 5 experts of width 9
  CHECK(mlp("mixtral", 4) == 2ULL * 4 * 2 * (2 * 3 * 18 * 9 + 18 * 5));
  // 2 layers with 3 of 5 experts of width 7 and a shared one of width 11, and a layer with an MLP of width 17
  CHECK(mlp("qwen2_moe", 4) == 2ULL * 4 * (2 * (3 * 3 * 18 * 7 + 18 * 5 + 3 * 18 * 11 + 18) + 3 * 18 * 17));
}

TEST_CASE("each kind of attention costs the pairs that it computes") {
  for (const char* text : {"window:1", "window:3", "window:50", "block:1", "block:4", "block:50", "strided:1",
                           "strided:3", "strided:5", "strided:50"}) {
    const attnctl::model::AttentionKind kind = attnctl::model::parse_attention_kind(text).value();
    for (const bool causal : {false, true}) {
      for (std::size_t n = 1; n <= 17; ++n) {
        CAPTURE(text);
        CAPTURE(causal);
        CAPTURE(n);
        std::uint64_t pairs = 0;
        for (std::size_t i = 0; i < n; ++i) {
          for (std::size_t j = 0; j < n; ++j) {
            const std::size_t apart = i > j ? i - j : j - i;
            const bool visible = kind.rule == attnctl::model::AttentionKind::Rule::window ? apart < kind.size
                                 : kind.rule == attnctl::model::AttentionKind::Rule::block
                                     ? i / kind.size == j / kind.size
                                     : apart < kind.size || apart % kind.size == 0;
            if (visible && (!causal || j <= i)) ++pairs;
          }
        }
        attnctl::model::ModelConfig config =
            attnctl::model::bare_config({.d_model = 12, .heads = 3, .layers = 2});
        for (attnctl::model::LayerConfig& layer : config.layers) {
          layer.attention.kind = kind;
          layer.attention.causal = causal;
        }
        CHECK(attnctl::model::count_flops(config, n).scores == 2 * 2 * 3 * 4 * pairs);
        CHECK(attnctl::model::count_flops(config, n).values == 2 * 2 * 3 * 4 * pairs);
        CHECK(attnctl::model::count_pattern_memory(config, n).layer == 4 * 3 * pairs);
      }
    }
  }
  attnctl::model::ModelConfig linear = attnctl::model::bare_config({.d_model = 12, .heads = 3, .layers = 1});
  linear.layers[0].attention.kind = attnctl::model::parse_attention_kind("linear").value();
  CHECK(attnctl::model::count_flops(linear, 100).values == std::uint64_t{2} * 100 * (3 + 3) * 4 * 4);
  CHECK(attnctl::model::count_flops(linear, 100).scores == std::uint64_t{2} * 100 * (3 + 3) * 4);
  CHECK(attnctl::model::count_pattern_memory(linear, 100).all == 0);
  CHECK(attnctl::model::count_cache_bytes(linear) == 0);
}

TEST_CASE("shape_walk gives the textbook shapes for batch 2, n 10, d 512, 8 heads") {
  const auto config = attnctl::model::bare_config({.d_model = 512, .heads = 8});
  const attnctl::Table table = attnctl::model::shape_walk(config, 2, 10);
  CHECK(table.columns == std::vector<attnctl::Column>{"step", "tensor", "shape", "values"});
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
    attnctl::model::BareSizes sizes;
    attnctl::Status status;
    const char* message;
  };
  for (const Row& row : {
           Row{{.d_model = 10, .heads = 3}, attnctl::Status::usage, "multiple of 3, the number of heads"},
           Row{{.d_model = 8, .heads = 4, .kv_heads = 3},
               attnctl::Status::usage,
               "multiple of 3, the number of key/value heads"},
           Row{{.d_model = 0, .heads = 4}, attnctl::Status::usage, "at least 1"},
           Row{{.d_model = 8, .heads = 0}, attnctl::Status::usage, "at least 1"},
           Row{{.d_model = 8, .heads = 2, .layers = 1'000'000'000},
               attnctl::Status::limit,
               "1000000000 layers"},
           Row{{.d_model = 8, .heads = 2, .d_value = std::size_t{1} << 21U},
               attnctl::Status::limit,
               "heads of width 2097152"},
           Row{{.d_model = 8, .heads = 2, .d_value = 0}, attnctl::Status::usage, "at least 1"},
       }) {
    CAPTURE(std::string(row.message));
    try {
      static_cast<void>(attnctl::model::bare_config(row.sizes));
      FAIL("accepted");
    } catch (const attnctl::Error& error) {
      CHECK(error.status() == row.status);
      CHECK_MESSAGE(std::string(error.what()).find(row.message) != std::string::npos, error.what());
    }
  }
  const auto config = attnctl::model::bare_config({.d_model = 8, .heads = 2});
  CHECK_THROWS_AS(
      static_cast<void>(attnctl::model::count_flops(config, std::numeric_limits<std::size_t>::max() / 2)),
      attnctl::Error);
}

namespace {

using attnctl::Shape;
using attnctl::test::MemoryModel;

MemoryModel bare(const std::map<std::string, Shape>& tensors, const char* options) {
  MemoryModel model;
  model.config = nlohmann::ordered_json::parse(options);
  model.config["model_type"] = "attention";
  // All values differ: with a plain ramp, a W_k of the same shape would be a copy of W_q.
  float sign = 1;
  for (const auto& [name, shape] : tensors) {
    attnctl::test::MemoryTensor tensor = attnctl::test::ramp(shape);
    std::vector<float> values(tensor.bytes.size() / sizeof(float));
    attnctl::convert(tensor.dtype, tensor.bytes, std::span<float>(values));
    for (float& value : values) value *= sign;
    sign += 1;
    model.tensors[name] = attnctl::test::floats(shape, values);
  }
  return model;
}

/// "KIND LAYERS HEADS: TEXT" of each row.
std::vector<std::string> statements(const attnctl::model::Model& model) {
  const attnctl::Table table = attnctl::model::sharing_table(model.config(), &model);
  CHECK(table.columns == std::vector<attnctl::Column>{"kind", "layers", "heads", "text"});
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < table.rows; ++i) {
    std::vector<attnctl::Cell> cells(table.columns.size());
    table.row(i, cells);
    const auto text = [&](std::size_t column) {
      const auto* found = std::get_if<std::string>(&cells[column]);
      return found != nullptr ? *found : std::string("-");
    };
    texts.push_back(text(0) + " " + text(1) + " " + text(2) + ": " + text(3));
  }
  return texts;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("in an encoder-decoder model, statements number the layers of a component") {
  MemoryModel bart = MemoryModel::golden("bart");
  const std::string decoder = "model.decoder.layers.0.", encoder = "model.encoder.layers.1.";
  for (const std::string& attention :
       {encoder + "self_attn.", decoder + "self_attn.", decoder + "encoder_attn."}) {
    for (const char* part : {"weight", "bias"})
      bart.tensors[attention + "k_proj." + part] = bart.tensors.at(attention + "q_proj." + part);
  }
  const attnctl::model::Model model = bart.bound();
  const attnctl::Table table = attnctl::model::sharing_table(model.config(), &model);
  CHECK(table.columns.front() == attnctl::Column("component"));
  REQUIRE(table.rows == 3);
  std::vector<std::string> places;
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<attnctl::Cell> cells(table.columns.size());
    table.row(i, cells);
    places.push_back(std::get<std::string>(cells[0]) + " " + std::get<std::string>(cells[2]));
  }
  CHECK(places == std::vector<std::string>{"enc 1", "dec 0", "cross 0"});
}

TEST_CASE("equal statements about several layers form one row") {
  const std::map<std::string, Shape> plain = {
      {"W_q", {6, 6}}, {"W_k", {6, 6}}, {"W_v", {6, 6}}, {"W_o", {6, 6}}};
  CHECK(statements(bare(plain, R"({"heads": 3})").bound()).empty());

  std::map<std::string, Shape> tensors;
  for (const std::string layer : {"layers.0.", "layers.1.", "layers.2."}) {
    tensors[layer + "W_q"] = {12, 12};
    tensors[layer + "W_k"] = tensors[layer + "W_v"] = {12, 6};
    tensors[layer + "W_o"] = {12, 12};
  }
  CHECK(statements(bare(tensors, R"({"heads": 4, "kv_heads": 2, "layers": 3})").bound()) ==
        Texts{"kv_head 0-2 0,1: heads 0,1 share W_K and W_V (key/value head 0)",
              "kv_head 0-2 2,3: heads 2,3 share W_K and W_V (key/value head 1)"});

  CHECK(statements(bare({{"W_q", {6, 8}}}, R"({"heads": 2})").bound()) ==
        Texts{"query_key 0 -: W_Q = W_K: there is no W_K, W_Q is used"});
  CHECK(statements(bare({{"W_q", {6, 6}}, {"W_k", {6, 6}}, {"W_v", {6, 6}}},
                        R"({"heads": 5, "head_slices": [0, 1, 0, 0, 2]})")
                       .bound()) ==
        Texts{"tied_heads 0 0,2,3: heads 0,2,3 are tied to slice 0 of W_Q, W_K and W_V"});

  std::map<std::string, Shape> thin = {{"layers.0.W_q_a", {6, 2}}, {"layers.0.W_q_b", {2, 8}},
                                       {"layers.0.W_k", {6, 8}},   {"layers.0.W_v", {6, 4}},
                                       {"layers.0.W_o_a", {4, 3}}, {"layers.0.W_o_b", {3, 6}}};
  for (const auto& [name, shape] : std::map(thin)) thin["layers.1" + name.substr(8)] = shape;
  CHECK(statements(bare(thin, R"({"heads": 2, "layers": 2})").bound()) ==
        Texts{"factorised 0,1 -: W_Q factorised, rank 2", "factorised 0,1 -: W_O factorised, rank 3"});
}

TEST_CASE("W_K is W_Q if their bytes are equal, in any layout") {
  struct Row {
    std::map<std::string, Shape> tensors;
    const char* options;
    std::vector<std::pair<const char*, const char*>> copies;  // of the second to the first
    bool same;
  };
  for (const Row& row : std::vector<Row>{
           {{{"W_q", {6, 8}}, {"W_k", {6, 8}}}, R"({"heads": 2})", {{"W_k", "W_q"}}, true},
           {{{"W_q", {6, 8}}, {"W_k", {6, 8}}}, R"({"heads": 2})", {}, false},
           {{{"q_proj.weight", {8, 6}}, {"k_proj.weight", {8, 6}}},
            R"({"heads": 2})",
            {{"k_proj.weight", "q_proj.weight"}},
            true},
           {{{"W_q_a", {6, 2}}, {"W_q_b", {2, 8}}, {"W_k_a", {6, 2}}, {"W_k_b", {2, 8}}},
            R"({"heads": 2})",
            {{"W_k_a", "W_q_a"}, {"W_k_b", "W_q_b"}},
            true},
           {{{"W_q_a", {6, 2}}, {"W_q_b", {2, 8}}, {"W_k_a", {6, 2}}, {"W_k_b", {2, 8}}},
            R"({"heads": 2})",
            {{"W_k_a", "W_q_a"}},
            false},
       }) {
    MemoryModel model = bare(row.tensors, row.options);
    for (const auto& [to, from] : row.copies) model.tensors[to] = model.tensors.at(from);
    CHECK(model.bound().key_is_query(0) == row.same);
  }
  // [q; k; v] in one tensor: the first two blocks of rows alike, and then one value not.
  std::vector<float> packed(std::size_t{18} * 6);
  for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<float>(i < 36 ? i : i - 36);
  MemoryModel torch = bare({}, R"({"heads": 2})");
  torch.tensors["in_proj_weight"] = attnctl::test::floats({18, 6}, packed);
  CHECK(torch.bound().key_is_query(0));
  packed[71] += 1;
  torch.tensors["in_proj_weight"] = attnctl::test::floats({18, 6}, packed);
  CHECK_FALSE(torch.bound().key_is_query(0));

  // Two tensors are two, and none is none.
  MemoryModel twice = bare({{"W_q", {6, 8}}, {"W_k", {6, 8}}}, R"({"heads": 2})");
  CHECK(twice.bound().parameters() == 2 * 6 * 8);
  twice.tensors.erase("W_k");
  CHECK(twice.bound().parameters() == 6 * 8);
  CHECK(attnctl::model::count_parameters(twice.bound().config()).all == 6 * 8);
}

TEST_CASE("parameters, operations and cache of attention variants follow their formulas") {
  const std::uint64_t d = 24, h = 6, k = 5, v = 4, n = 10;
  struct Row {
    const char* why;
    std::map<std::string, Shape> tensors;
    const char* options;
    std::uint64_t parameters, projections, output, cache;
  };
  for (const Row& row : std::vector<Row>{
           {"full",
            {{"W_q", {d, h * k}}, {"W_k", {d, h * k}}, {"W_v", {d, h * v}}, {"W_o", {h * v, d}}},
            R"({"heads": 6})",
            2 * d * h * k + 2 * d * h * v,
            2 * n * d * h * (2 * k + v),
            2 * n * h * v * d,
            4 * h * (k + v)},
           {"multi-query",
            {{"W_q", {d, h * k}}, {"W_k", {d, k}}, {"W_v", {d, v}}, {"W_o", {h * v, d}}},
            R"({"heads": 6, "kv_heads": 1})",
            d * h * k + d * k + d * v + h * v * d,
            2 * n * d * (h * k + k + v),
            2 * n * h * v * d,
            4 * (k + v)},
           {"no W_k, no W_o",
            {{"W_q", {d, h * k}}, {"W_v", {d, h * v}}},
            R"({"heads": 6})",
            d * h * k + d * h * v,
            2 * n * d * h * (2 * k + v),
            0,
            4 * h * (k + v)},
           {"tied to two slices",
            {{"W_q", {d, 2 * k}}, {"W_k", {d, 2 * k}}, {"W_v", {d, 2 * v}}, {"W_o", {h * v, d}}},
            R"({"heads": 6, "head_slices": [0, 0, 0, 1, 1, 1]})",
            2 * d * 2 * k + d * 2 * v + h * v * d,
            2 * n * d * 2 * (2 * k + v),
            2 * n * h * v * d,
            4 * 2 * (k + v)},
           {"all factorised, of the ranks 2, 3, 4 and 7",
            {{"W_q_a", {d, 2}},
             {"W_q_b", {2, h * k}},
             {"W_k_a", {d, 3}},
             {"W_k_b", {3, h * k}},
             {"W_v_a", {d, 4}},
             {"W_v_b", {4, h * v}},
             {"W_o_a", {h * v, 7}},
             {"W_o_b", {7, d}}},
            R"({"heads": 6})",
            2 * (d + h * k) + 3 * (d + h * k) + 4 * (d + h * v) + 7 * (h * v + d),
            2 * n * (2 * (d + h * k) + 3 * (d + h * k) + 4 * (d + h * v)),
            2 * n * 7 * (h * v + d),
            4 * h * (k + v)},
       }) {
    CAPTURE(std::string(row.why));
    const attnctl::model::Model model = bare(row.tensors, row.options).bound();
    const attnctl::model::FlopCount flops = attnctl::model::count_flops(model.config(), n);
    CHECK(attnctl::model::count_parameters(model.config()).all == row.parameters);
    CHECK(model.parameters() == row.parameters);
    CHECK(flops.projections == row.projections);
    CHECK(flops.output == row.output);
    CHECK(flops.scores == 2 * n * n * h * k);
    CHECK(flops.values == 2 * n * n * h * v);
    CHECK(attnctl::model::count_cache_bytes(model.config()) == row.cache);
  }
}
