#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/dtype.hpp"
#include "checkpoint/checkpoint.hpp"
#include "support/golden.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

namespace fs = std::filesystem;
const fs::path kGoldens = ATTNCTL_SOURCE_DIR "/tests/golden";

checkpoint::ModelSource opened(const std::string& base, Warnings& warnings) {
  return checkpoint::open_model_source((kGoldens / base).string(), std::nullopt, warnings);
}

std::vector<double> values_of(checkpoint::Checkpoint& weights, std::size_t index) {
  const checkpoint::TensorView view = weights.tensor(index);
  std::vector<double> values(view.bytes.size() / size_of(view.dtype));
  convert(view.dtype, view.bytes, values);
  weights.release(index);
  return values;
}

TEST_CASE("the weights with a LoRA adapter are those that PEFT merges") {
  struct Case {
    const char* adapter;
    const char* base;
  };
  for (const auto& each : {Case{"llama", "llama"}, Case{"llama-rslora", "llama"}, Case{"gpt2", "gpt2"},
                           Case{"gpt2-embedding", "gpt2"}, Case{"bert", "bert"}}) {
    const std::string adapter = each.adapter, base = each.base;
    CAPTURE(adapter);
    Warnings warnings;
    checkpoint::ModelSource plain = opened(base, warnings), source = opened(base, warnings);
    checkpoint::apply_adapter(kGoldens / "adapters" / adapter, source, warnings);
    CHECK(warnings.list().empty());
    const Golden golden(kGoldens / "adapters" / adapter / "golden.npz");
    std::size_t changed = 0;
    for (std::size_t i = 0; i < plain.weights->tensors().size(); ++i) {
      const checkpoint::TensorInfo& info = plain.weights->tensors()[i];
      CAPTURE(info.name);
      REQUIRE(source.weights->find(info.name) == i);
      const std::vector<double> before = values_of(*plain.weights, i), after = values_of(*source.weights, i);
      if (!golden.has(info.name)) {
        CHECK(before == after);
        continue;
      }
      ++changed;
      CHECK(source.weights->tensors()[i].dtype == DType::f32);
      const std::vector<double> want = golden.array(info.name).values;
      REQUIRE(want.size() == after.size());
      for (std::size_t k = 0; k < want.size(); ++k) CHECK(std::abs(after[k] - want[k]) <= 1e-6);
      CHECK(values_of(*source.weights, i) == after);  // again after its release
    }
    CHECK(changed > 0);
  }
}

TEST_CASE("a directory that is no LoRA adapter of the model is refused") {
  const auto refusal = [](const fs::path& adapter, const std::string& base) {
    Warnings warnings;
    checkpoint::ModelSource source = opened(base, warnings);
    try {
      checkpoint::apply_adapter(adapter, source, warnings);
    } catch (const Error& error) {
      CHECK(error.status() == Status::bad_input);
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const auto has = [](const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  has(refusal(kGoldens / "llama", "llama"), "no adapter_config.json; need the directory of a LoRA adapter");
  has(refusal(kGoldens / "adapters/gpt2", "llama"),
      "the model has no tensor \"transformer.h.0.attn.c_attn.weight\"");
  has(refusal(kGoldens / "adapters/llama", "gpt2"), "need the adapter of this model");
  const auto with = [&](const nlohmann::json& keys) {
    const TempDir folder;
    nlohmann::json config = nlohmann::json::parse(slurp(kGoldens / "adapters/llama/adapter_config.json"));
    config.merge_patch(keys);
    folder.write("adapter_config.json", config.dump());
    folder.write("adapter_model.safetensors", slurp(kGoldens / "adapters/llama/adapter_model.safetensors"));
    return refusal(folder.path(), "llama");
  };
  CHECK(with(nlohmann::json::object()) == "nothing");
  has(with({{"peft_type", "IA3"}}), "/peft_type: got \"IA3\", need \"LORA\"");
  has(with({{"use_dora", true}}), "/use_dora: true is unsupported, need false");
  has(with({{"lora_alpha", nullptr}}), "/lora_alpha: got nothing, need a number");
  has(with({{"lora_alpha", "x"}}), "/lora_alpha: got \"x\", need a number");
  has(with({{"fan_in_fan_out", true}}), "got shape [2, 22], need [2, 24]");
}

}  // namespace
}  // namespace attnctl::test
