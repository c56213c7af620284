#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/source.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;
using namespace attnctl::test;

namespace {

const std::filesystem::path kGolden = std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden";

std::vector<float> values_of(const TensorView& view) {
  std::vector<float> values(view.bytes.size() / size_of(view.dtype));
  convert(view.dtype, view.bytes, std::span(values));
  return values;
}

/// Compares bits: 0 differs from -0, and a NaN equals itself.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

/// Checks that `got` has every tensor of `want` with the same shape and values, before and after release().
void check_same_tensors(Checkpoint& got, Checkpoint& want) {
  CHECK(got.tensors().size() == want.tensors().size());
  for (std::size_t i = 0; i < want.tensors().size(); ++i) {
    const TensorInfo& info = want.tensors()[i];
    CAPTURE(info.name);
    const std::size_t found = got.find(info.name);
    REQUIRE(found != Checkpoint::npos);
    CHECK(got.tensors()[found].shape == info.shape);
    CHECK(got.tensors()[found].dtype == info.dtype);
    for (int time = 0; time < 2; ++time) {
      const TensorView view = got.tensor(found);
      CHECK(view.shape == info.shape);
      CHECK(same_bits(values_of(view), values_of(want.tensor(i))));
      got.release(found);
    }
  }
}

Model bind(const std::filesystem::path& path, const SourceOptions& options = {}) {
  Warnings warnings;
  Model model = Model::bind(open_model_source(path.string(), options, warnings), warnings);
  CHECK(warnings.list().empty());
  return model;
}

void check_same_pass(const Model& got, const Model& want, const Batch& batch) {
  const auto ours = capture_all(got, batch);
  const auto theirs = capture_all(want, batch);
  REQUIRE(ours.size() == theirs.size());
  for (std::size_t s = 0; s < ours.size(); ++s) {
    REQUIRE(ours[s].heads.size() == theirs[s].heads.size());
    for (const auto& [id, head] : theirs[s].heads)
      CHECK(std::ranges::equal(ours[s].heads.at(id).pattern.values(), head.pattern.values()));
    CHECK(std::ranges::equal(ours[s].logits.values(), theirs[s].logits.values()));
    CHECK(!theirs[s].logits.values().empty());
  }
}

}  // namespace

TEST_CASE("every GGUF type is decoded as by the format's own library") {
  Warnings warnings;
  const auto got = open_checkpoint(kGolden / "gguf/types.gguf", warnings);
  const auto want = open_checkpoint(kGolden / "gguf/types.npz", warnings);
  CHECK(want->tensors().size() == 11);
  CHECK(got->tensors().size() == 11);
  for (std::size_t i = 0; i < want->tensors().size(); ++i) {
    CAPTURE(want->tensors()[i].name);
    const std::size_t found = got->find(want->tensors()[i].name);
    REQUIRE(found != Checkpoint::npos);
    CHECK(got->tensors()[found].shape == want->tensors()[i].shape);
    CHECK(same_bits(values_of(got->tensor(found)), values_of(want->tensor(i))));
  }
}

TEST_CASE("a GGUF model holds the tensors of the safetensors file that it was converted from") {
  struct Row {
    const char* gguf;
    const char* original;
  };
  for (const Row& row :
       {Row{"llama-f32.gguf", "llama/model.safetensors"},
        Row{"llama-f16.gguf", "llama-f16/model.safetensors"}, Row{"gpt2-f32.gguf", "gpt2/model.safetensors"},
        Row{"qwen2-f32.gguf", "qwen2/model.safetensors"}, Row{"llama-q8_0.gguf", "gguf/llama-q8_0.npz"}}) {
    CAPTURE(row.gguf);
    Warnings warnings;
    const auto got = open_checkpoint(kGolden / "gguf" / row.gguf, warnings);
    check_same_tensors(*got, *open_checkpoint(kGolden / row.original, warnings));
  }
}

TEST_CASE("a GGUF model without config.json gives the patterns and logits of its original") {
  struct Row {
    const char* gguf;
    const char* original;
  };
  for (const Row& row :
       {Row{"llama-f32.gguf", "llama"}, Row{"gpt2-f32.gguf", "gpt2"},
        Row{"llama-linear.gguf", "llama-linear"}, Row{"llama-yarn.gguf", "llama-yarn-flat"}}) {
    CAPTURE(row.gguf);
    const Golden golden(kGolden / row.original);
    Batch batch;
    for (std::size_t i = 0; i < golden.inputs(); ++i) batch.sequences.push_back(golden.sequence(i));
    check_same_pass(bind(kGolden / "gguf" / row.gguf), bind(kGolden / row.original), batch);
  }
}

TEST_CASE("a GGUF model of qwen2 keeps the order of rotary heads and has no windows") {
  const Golden golden(kGolden / "qwen2");
  auto config = nlohmann::ordered_json::parse(slurp(kGolden / "qwen2/config.json"));
  config["use_sliding_window"] = false;
  config.erase("layer_types");
  const TempDir folder;
  const auto plain = folder.write("config.json", config.dump());
  const Batch batch{{golden.sequence(0), golden.sequence(1)}};
  check_same_pass(bind(kGolden / "gguf/qwen2-f32.gguf"), bind(kGolden / "qwen2", {.config = plain}), batch);
}

TEST_CASE("a GGUF model of gemma2 stores gains plus 1, and its scale follows from the head width") {
  const Golden golden(kGolden / "gemma2");
  auto config = nlohmann::ordered_json::parse(slurp(kGolden / "gemma2/config.json"));
  config["query_pre_attn_scalar"] = config["head_dim"];
  const TempDir folder;
  const auto own = folder.write("config.json", config.dump());
  const Batch batch{{golden.sequence(0), golden.sequence(1)}};
  check_same_pass(bind(kGolden / "gguf/gemma2-f16.gguf"), bind(kGolden / "gemma2", {.config = own}), batch);
}

TEST_CASE("--config replaces the configuration in a GGUF model's metadata") {
  const auto file = kGolden / "gguf/llama-f16.gguf";
  const auto original = kGolden / "llama-f16";
  const Golden golden(original);
  const Batch batch{{golden.sequence(0)}};
  check_same_pass(bind(file, {.config = original / "config.json"}), bind(original), batch);
  Warnings warnings;
  const ModelSource source = open_model_source((kGolden / "gguf/llama-f32.gguf").string(), {}, warnings);
  CHECK(source.config_path == kGolden / "gguf/llama-f32.gguf");
  CHECK(source.config.dump() ==
        R"({"model_type":"llama","hidden_size":24,"num_hidden_layers":2,"num_attention_heads":6,)"
        R"("num_key_value_heads":2,"head_dim":10,"intermediate_size":22,"max_position_embeddings":17,)"
        R"("rms_norm_eps":9.999999747378752e-06,"rope_theta":10000.0,"vocab_size":39,"attention_bias":true,)"
        R"("mlp_bias":true,"tie_word_embeddings":false,"bos_token_id":1,"eos_token_id":2})");
}

TEST_CASE("rotary factors of a GGUF model equal Llama 3's scaling up to rounding") {
  const Golden golden(kGolden / "llama-llama3");
  const Batch batch{{golden.sequence(0)}};
  const auto ours = capture_all(bind(kGolden / "gguf/llama-llama3.gguf"), batch);
  const auto theirs = capture_all(bind(kGolden / "llama-llama3"), batch);
  for (const auto& [id, head] : theirs[0].heads) {
    const auto got = ours[0].heads.at(id).pattern.values();
    REQUIRE(got.size() == head.pattern.values().size());
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(std::abs(got[i] - head.pattern.values()[i]) <= golden.array("bound_pattern").values[0]);
  }
}
