#include "attnctl/model/accounting.hpp"

#include "attnctl/base/error.hpp"
#include "attnctl/model/presets.hpp"

#include <limits>

#include <doctest/doctest.h>

#include "support/golden.hpp"

using attnctl::count_parameters;

TEST_CASE("parameters counted from a configuration are those that are bound, for every golden model") {
  for (const auto& directory : attnctl::test::golden_models()) {
    CAPTURE(directory.filename().string());
    attnctl::Warnings warnings;
    const attnctl::Model model = attnctl::test::bind_model(directory, warnings);
    CHECK(count_parameters(model.config()).all == model.parameters());
  }
}

TEST_CASE("published architectures have the published numbers of parameters") {
  struct Row {
    const char* preset;
    std::uint64_t want;
    const char* why;
  };
  for (const Row& row : {
           Row{"bert-base", 109'514'298,
               "BertForMaskedLM: 109,482,240 of BertModel - 590,592 of its pooler + head"},
           Row{"bert-large", 335'174'458, "BertForMaskedLM"},
           Row{"gpt2", 124'439'808, "GPT2LMHeadModel, tied"},
           Row{"gpt2-medium", 354'823'168, "GPT2LMHeadModel"},
           Row{"gpt2-large", 774'030'080, "GPT2LMHeadModel"},
           Row{"gpt2-xl", 1'557'611'200, "GPT2LMHeadModel"},
           Row{"gpt3", 174'604'259'328, "12 L d^2 + 13 L d + (V + n + 2) d for the layout of GPT-2"},
           Row{"llama-7b", 6'738'415'616, "LlamaForCausalLM, a head of its own"},
           Row{"llama-65b", 65'285'660'672, "LlamaForCausalLM"},
           Row{"llama2-70b", 68'976'648'192, "LlamaForCausalLM, 8 key/value heads"},
       }) {
    CAPTURE(std::string(row.preset));
    CAPTURE(std::string(row.why));
    CHECK(count_parameters(attnctl::preset_named(row.preset).config).all == row.want);
  }
}

TEST_CASE("every preset has the sizes of the textbooks' table") {
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
  CHECK_THROWS_WITH_AS(static_cast<void>(attnctl::preset_named("gpt5")),
                       doctest::Contains("bert-base, bert-large"), attnctl::Error);
}

TEST_CASE("attention costs 4 d^2 parameters a layer and the same operations for any number of heads") {
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

TEST_CASE("biases, shared layers and key/value heads are accounted for") {
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

TEST_CASE("MLP and head count in the operations of a model") {
  const auto& config = attnctl::preset_named("llama-7b").config;
  const auto flops = attnctl::count_flops(config, 3);
  CHECK(flops.mlp == 2ULL * 3 * 32 * 3 * 4096 * 11008);
  CHECK(flops.head == 2ULL * 3 * 4096 * 32000);
  CHECK(flops.all == flops.projections + flops.scores + flops.values + flops.output + flops.mlp + flops.head);
}

TEST_CASE("the walk of shapes is the textbooks' for batch 2, n 10, d 512, 8 heads") {
  const auto config = attnctl::bare_config({.d_model = 512, .heads = 8});
  const attnctl::Table table = attnctl::shape_walk(config, 2, 10);
  CHECK(table.columns == std::vector<std::string>{"step", "tensor", "shape", "values"});
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

TEST_CASE("sizes that are wrong or too large are refused") {
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
