#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "support/json_schema.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

using attnctl::test::run_attnctl;
using attnctl::test::RunResult;
using nlohmann::json;

namespace {

json info_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "info");
  arguments.insert(arguments.end(), {"--format", "json"});
  const RunResult result = run_attnctl(arguments);
  REQUIRE_MESSAGE(result.status == 0, result.err);
  json document = json::parse(result.out);
  const json schema = json::parse(attnctl::cli::schema_text("attnctl.info/2"));
  CHECK(attnctl::test::schema_breaches(schema, document) == std::vector<std::string>{});
  return document;
}

TEST_CASE("info: a preset has the same accounting as a model") {
  const json document = info_of({"--preset", "bert-base", "--length", "128", "--shapes"});
  CHECK(document["model"]["path"] == nullptr);
  CHECK(document["model"]["preset"] == "bert-base");
  CHECK(document["model"]["parameters"] == 109'514'298);
  CHECK(document["parameters"]["attention"] == 12 * 4 * (768 * 768 + 768));
  CHECK(document["length"] == 128);
  CHECK(document["layers"].size() == 12);
  CHECK(document["shapes"][0]["shape"] == "[1, 128, 768]");
  CHECK_FALSE(document.contains("stored"));
  REQUIRE(document["comparison"].size() == 4);
  CHECK(document["comparison"][1]["own"] == true);
  CHECK(document["comparison"][1]["parameters"] == 4 * (768 * 768 + 768));
  // One head of width 768 needs as many multiply-adds as 12 heads of width 64.
  CHECK(document["comparison"][0]["multiply_adds"] == document["comparison"][1]["multiply_adds"]);
  CHECK(document["memory_bytes"]["key_value_cache_per_token"] ==
        12 * document["comparison"][1]["cache_bytes_per_token"].get<int>());
}

TEST_CASE("info: a Transformer preset counts the attention of both stacks") {
  const json document = info_of({"--preset", "transformer-big"});
  CHECK(document["model"]["attentions"] == 18);
  CHECK(document["parameters"]["attention"] == 6 * 4 * 1024 * 1024);
  CHECK(document["parameters"]["attention_of_both_stacks"] == 18 * 4 * 1024 * 1024);
}

TEST_CASE("info: sizes without a MODEL") {
  const json document =
      info_of({"--d", "512", "--heads", "8", "--kv-heads", "4", "--layers", "6", "--length", "1024"});
  CHECK(document["model"]["path"] == nullptr);
  CHECK_FALSE(document["model"].contains("preset"));
  CHECK(document["model"]["kv_heads"] == 4);
  CHECK(document["parameters"]["all"] == 6 * (2 * 512 * 512 + 2 * 512 * 256));
  CHECK(document["comparison"][2]["kv_heads"] == 4);
  CHECK(document["comparison"][2]["own"] == true);
  CHECK(document["memory_bytes"]["patterns"] == 6ULL * 8 * 1024 * 1024 * 4);
  const json wide = info_of({"--d", "512", "--heads", "8", "--d-head", "32", "--d-value", "16"});
  CHECK(wide["parameters"]["all"] == 512 * 8 * (32 + 32 + 16 + 16));
  CHECK(wide["comparison"][0]["d_head"] == 8 * 32);
}

TEST_CASE("titles have nouns in the singular after 1") {
  const auto page = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--format", "text"});
    return run_attnctl(words).out;
  };
  const std::string info = page({"info", "--d", "8", "--heads", "1", "--length", "1", "--shapes"});
  for (const char* const title : {"\nFLOPs of one sequence of 1 token (", "\nMemory at 1 token, float32\n",
                                  " variant of its heads, 1 token\n", "\nShapes, batch 1, 1 token\n"})
    CHECK_MESSAGE(info.find(title) != std::string::npos, info);
  const attnctl::test::TempDir folder;
  const auto model = folder.write("w.json", R"({"config": {"model_type": "attention", "heads": 1},
      "W_q": [[1, 0], [0, 1]], "W_k": [[1, 0], [0, 1]]})");
  const std::string weights = page({"weights", model.string()});
  CHECK_MESSAGE(weights.find(": attention, 1 layer x 1 head, d_model 2") != std::string::npos, weights);
}

TEST_CASE("info: tensors that are not parameters are listed") {
  const json document = info_of({"tests/golden/bert"});
  CHECK(document["stored"] ==
        json({{"all", 9594}, {"parameters", 8933}, {"tied", 0}, {"buffers", 11}, {"unused", 650}}));
  CHECK(document["model"]["parameters"] == 8933);
  REQUIRE(document["apart"].size() == 5);
  CHECK(document["apart"][0] == json({{"name", "bert.embeddings.position_ids"},
                                      {"role", "buffer"},
                                      {"values", 11},
                                      {"copy_of", nullptr}}));
  CHECK(document["architecture"]["unused_tensors"] == 4);
  const RunResult lines = run_attnctl({"info", "tests/golden/bert", "--format", "jsonl"});
  CHECK(lines.out.find(R"("record": "apart")") != std::string::npos);
  CHECK(lines.out.find(R"("record": "variant")") != std::string::npos);
}

TEST_CASE("info: exactly one subject may be given") {
  const std::vector<std::vector<std::string>> refused = {
      {},
      {"data/tiny-bert", "--preset", "bert-base"},
      {"data/tiny-bert", "--d", "8", "--heads", "2"},
      {"--preset", "bert-base", "--heads", "2"},
      {"--d", "8"},
      {"--heads", "8"},
      {"--kv-heads", "2"},
      {"--d", "8", "--heads", "3"},
      {"--d", "8", "--heads", "0"},
      {"--preset", "bert-base", "--tensors"},
      {"--d", "8", "--heads", "2", "--config", "data/tiny-bert/config.json"},
      {"--families", "--shapes"},
  };
  for (std::vector<std::string> arguments : refused) {
    arguments.insert(arguments.begin(), "info");
    const RunResult result = run_attnctl(arguments);
    CAPTURE(result.err);
    CHECK(result.status == 2);
    CHECK(result.err.starts_with("attnctl: "));
  }
  const RunResult unknown = run_attnctl({"info", "--preset", "bert-huge"});
  CHECK(unknown.status == 2);
  for (const char* name :
       {"transformer-base", "bert-large", "gpt2-small", "gpt3", "llama-65b", "llama2-70b"}) {
    CHECK(unknown.err.find(name) != std::string::npos);
    CHECK(run_attnctl({"info", "--help"}).out.find(name) != std::string::npos);
  }
}

TEST_CASE("families are shown by their properties, in JSON and as a table") {
  const json families = info_of({"--families"})["families"];
  REQUIRE(families.size() > 30);
  const auto row = [&](const std::string& name) {
    for (const json& each : families) {
      if (each["name"] == name) return each;
    }
    return json();
  };
  CHECK(row("vit")["kind"] == "vision");
  CHECK(row("llama")["kind"] == "decoder");
  CHECK(row("llama")["activation"] == "silu, gated");
  CHECK(row("gpt_neox")["position"] == "rotary 0.25");
  CHECK(row("gpt_neox")["packing"] == "q k v by head");
  CHECK(row("mistral")["mask"] == "causal, windows");
  CHECK(row("bert")["norm"] == "layer, post");
  CHECK(row("bert")["packing"].is_null());
  const RunResult csv = run_attnctl({"info", "--families", "--format", "csv", "--table", "families"});
  REQUIRE(csv.status == 0);
  CHECK(csv.out.starts_with("name,kind,norm,position,activation,mask,packing,specials\r\n"));
  CHECK(csv.out.find("\r\nvit,vision,\"layer, pre\",learned,gelu,none,,\r\n") != std::string::npos);
  CHECK(run_attnctl({"info", "--families", "--format", "csv"}).status == 2);
  CHECK(run_attnctl({"info", "--families", "--format", "csv", "--table", "heads"}).status == 2);
}

}  // namespace
