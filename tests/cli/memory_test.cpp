#include "base/memory.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/memory_checkpoint.hpp"
#include "support/run.hpp"
#include "support/sanitized.hpp"
#include "support/temp_dir.hpp"

using attnctl::test::kSanitized;
using attnctl::test::run_attnctl;
using attnctl::test::RunResult;

TEST_CASE(
    "resident memory stays below the checkpoint's size plus 64 MiB if patterns are streamed or not written") {
  const std::filesystem::path model = std::filesystem::path(ATTNCTL_SHARED_DIR) / "models" / "stories15M";
  if (!std::filesystem::exists(model) || kSanitized) {
    MESSAGE("skipped: no shared models at " << model.string() << ", or built with a sanitizer");
    return;
  }
  std::mt19937 random(7);
  std::string ids = "1";
  for (int i = 1; i < 256; ++i) ids += "," + std::to_string(random() % 32000);
  const std::size_t most = std::filesystem::file_size(model / "model.safetensors") + (std::size_t{64} << 20);
  attnctl::test::TempDir dir;
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--include", "metrics,weights", "--format", "json"},
        std::vector<std::string>{"--include", "metrics,patterns,weights", "-o",
                                 (dir.path() / "x.npz").string()}}) {
    std::vector<std::string> command = {"analyze", model.string(), "--ids", ids, "--threads", "2"};
    command.insert(command.end(), more.begin(), more.end());
    const RunResult result = run_attnctl(command);
    CHECK_MESSAGE(result.status == 0, result.err);
    CAPTURE(more.back());
    CHECK(result.peak_bytes > 0);
    CHECK(result.peak_bytes < most);
    MESSAGE("peak resident " << result.peak_bytes / 1048576 << " MiB of " << most / 1048576);
  }
}

namespace {

/// Returns the value of --memory that an error names, for example "84M".
std::string named_value(const RunResult& refused) {
  const std::string before = "too few, ";
  const std::size_t begin = refused.err.find(before);
  if (begin == std::string::npos) return {};
  const std::size_t first = begin + before.size();
  return refused.err.substr(first, refused.err.find('M', first) + 1 - first);
}

/// Checks that a command fails with too little memory, and that it succeeds with the value that the error
/// names. With that value it must remain within the limit and write the same bytes as without a limit.
void check_bounded(const std::vector<std::string>& command) {
  std::string shown;
  for (const std::string& word : command) shown += word.size() < 80 ? word + " " : "... ";
  CAPTURE(shown);
  attnctl::give_back_freed_memory();  // of earlier tests: each run begins with the memory of this process
  const auto with = [&](const std::string& memory) {
    std::vector<std::string> limited = command;
    limited.insert(limited.end(), {"--memory", memory});
    return run_attnctl(limited);
  };
  const RunResult refused = with("1M");
  CHECK(refused.status == 5);
  CHECK(refused.out.empty());
  CHECK(std::ranges::count(refused.err, '\n') == 1);
  const std::string figure = named_value(refused);
  REQUIRE_MESSAGE(!figure.empty(), refused.err);
  const RunResult bounded = with(figure);
  CHECK_MESSAGE(bounded.status == 0, bounded.err);
  const RunResult free = run_attnctl(command);
  CHECK(bounded.out == free.out);
  if (kSanitized) return;
  CHECK(bounded.peak_bytes > 0);
  CHECK_MESSAGE(bounded.peak_bytes <= std::stoull(figure) << 20, figure, " named, ", bounded.peak_bytes >> 20,
                " MiB taken");
}

std::string many_ids(std::size_t count, std::size_t vocabulary) {
  std::mt19937 random(7);
  std::string ids = "1";
  for (std::size_t i = 1; i < count; ++i) ids += "," + std::to_string(random() % vocabulary);
  return ids;
}

}  // namespace

TEST_CASE("--memory limits resident memory, also at the value that the error names") {
  const std::string ids = many_ids(60, 500);
  for (const char* const model : {"data/tiny-bert", "data/tiny-llama"}) {
    for (const char* const include :
         {"metrics", "metrics,patterns,scores,logits", "rollout,flow", "contributions"})
      check_bounded(
          {"analyze", model, "--ids", ids, "--include", include, "--format", "json", "--threads", "3"});
    check_bounded({"weights", model, "--format", "json", "--threads", "2"});
    check_bounded({"weights", model, "--include", "composition,subspaces,map,circuits", "--format", "json"});
    check_bounded({"weights", model, "--include", "token_circuits", "--format", "json", "--threads", "2"});
  }
}

TEST_CASE("a study under --memory gives the same bytes, also with many blocks in a layer at a time") {
  for (const char* const model : {"data/tiny-bert", "data/tiny-llama"}) {
    for (const char* const threads : {"1", "3"}) {
      check_bounded({"study", model, "--input", "data/treebank.conllu", "--null-shuffle", "1", "--threads",
                     threads, "--format", "json"});
    }
  }
}

TEST_CASE("a study whose weights do not fit into --memory gives the same bytes from one layer at a time") {
  attnctl::test::TempDir folder;
  attnctl::test::MemoryModel::read("data/tiny-llama")
      .with_layers(48)
      .write_with_tokenizer(folder.path(), "data/tiny-llama");
  for (const char* const threads : {"1", "3"}) {
    check_bounded({"study", folder.path().string(), "--input", "data/treebank.conllu", "--null-shuffle", "1",
                   "--threads", threads, "--format", "json"});
  }
}

TEST_CASE("a study of float32 weights that do not fit into --memory gives the same bytes") {
  attnctl::test::TempDir folder;
  attnctl::test::MemoryModel model = attnctl::test::MemoryModel::read("data/tiny-llama").with_layers(48);
  for (auto& [name, tensor] : model.tensors) {
    std::vector<float> values(tensor.bytes.size() / sizeof(std::uint16_t));
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, tensor.bytes.data() + i * sizeof bits, sizeof bits);
      values[i] = attnctl::float_from_f16(bits);
    }
    tensor = attnctl::test::floats(tensor.shape, values);
  }
  model.write_with_tokenizer(folder.path(), "data/tiny-llama");
  check_bounded({"study", folder.path().string(), "--input", "data/sentences.txt", "--measures",
                 "metrics,residual", "--threads", "2", "--format", "json"});
}

TEST_CASE("a study keeps no float32 copies of the weights of a model in float16") {
  attnctl::test::TempDir folder;
  attnctl::test::MemoryModel::read("data/tiny-llama")
      .with_layers(96)
      .write_with_tokenizer(folder.path(), "data/tiny-llama");
  const auto peak_with = [&](const char* measure) {
    const RunResult run = run_attnctl({"study", folder.path().string(), "--input", "data/treebank.conllu",
                                       "--measures", measure, "--threads", "2", "--format", "json"});
    REQUIRE_MESSAGE(run.status == 0, run.err);
    return static_cast<double>(run.peak_bytes) / 1048576;
  };
  const double without = peak_with("special"), with = peak_with("residual");
  if (kSanitized) return;
  // The attention weights have 25 MiB as float32, and the Gram matrices 3 MiB.
  CHECK_MESSAGE(with < without + 12, with, " MiB, ", without, " MiB without what heads write");
}

TEST_CASE("a study under --memory that is killed goes on and gives the same bytes") {
  attnctl::test::TempDir dir;
  const std::vector<std::string> study = {
      "study", "data/tiny-llama", "--input", "data/treebank.conllu", "--threads", "2", "--format", "json"};
  const std::string free = run_attnctl(study).out;
  REQUIRE(!free.empty());
  std::vector<std::string> small = study;
  small.insert(small.end(), {"--memory", "1M"});
  const std::string enough = named_value(run_attnctl(small));
  REQUIRE(!enough.empty());
  for (const int number : {SIGKILL, SIGINT}) {
    const std::string state = (dir.path() / (std::to_string(number) + ".state")).string();
    std::vector<std::string> limited = study;
    limited.insert(limited.end(), {"--memory", enough, "--checkpoint", state, "--checkpoint-every", "0"});
    for (const int milliseconds : {40, 60, 80, 100}) {
      const RunResult killed = run_attnctl(
          limited,
          {.signal = attnctl::test::LateSignal{number, std::chrono::microseconds(1000 * milliseconds)}});
      if (killed.status == 0) CHECK(killed.out == free);
    }
    const RunResult last = run_attnctl(limited);
    CHECK_MESSAGE(last.status == 0, last.err);
    CHECK(last.out == free);
  }
}

TEST_CASE("ablate whose weights do not fit into --memory gives the same bytes from one layer at a time") {
  attnctl::test::TempDir folder;
  attnctl::test::MemoryModel::read("data/tiny-llama")
      .with_layers(48)
      .write_with_tokenizer(folder.path(), "data/tiny-llama");
  const std::string texts = (folder.path() / "texts.txt").string();
  std::ofstream(texts) << "one cat and one cat and one house\nthe king spoke to the queen\n";
  const std::vector<std::string> command = {"ablate",   folder.path().string(), "--input",  texts,
                                            "--layers", "0,20,46-47",           "--format", "json"};
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--threads", "1", "--sets", "head,mlp"},
        std::vector<std::string>{"--threads", "3", "--replace", "resample", "--sets", "layer,mlp"},
        std::vector<std::string>{"--threads", "2", "--by-position", "--mean-from", "data/sentences.txt"}}) {
    std::vector<std::string> all = command;
    all.insert(all.end(), more.begin(), more.end());
    check_bounded(all);
  }
}

TEST_CASE("study --causal and ablate under --memory give the same bytes for bundled models") {
  for (const char* const model : {"data/tiny-bert", "data/tiny-llama"}) {
    const std::string texts = std::string(model) + "/sentences.jsonl";
    check_bounded({"study", model, "--input", texts, "--causal", "--threads", "2", "--format", "json"});
    check_bounded({"ablate", model, "--input", texts, "--order", "greedy", "--steps", "2", "--layers", "0",
                   "--format", "json"});
  }
}

TEST_CASE("patch and attribute whose weights do not fit into --memory give the same bytes") {
  attnctl::test::TempDir folder;
  attnctl::test::MemoryModel::read("data/tiny-llama")
      .with_layers(48)
      .write_with_tokenizer(folder.path(), "data/tiny-llama");
  for (const std::string& model : {std::string("data/tiny-llama"), folder.path().string()}) {
    check_bounded({"patch", model, "--clean", "one cat and one cat and one", "--corrupt",
                   "one house and one house and one", "--layers", "0-3", "--parts", "z,pattern", "--path",
                   "0.0:3.1", "--threads", "2"});
    check_bounded({"attribute", model, "--text", "one cat and one cat and one", "--score", "3.1:7:2",
                   "--patterns", "3.1", "--steps", "3", "--threads", "2"});
  }
}

TEST_CASE("a study with random models refuses --memory") {
  const RunResult result = run_attnctl(
      {"study", "data/tiny-llama", "--input", "data/sentences.txt", "--memory", "1G", "--null-model", "1"});
  CHECK(result.status == 2);
  CHECK(result.err.find("--memory") != std::string::npos);
  CHECK(result.out.empty());
}

TEST_CASE("--memory limits the pass of a model that is much larger than its layers") {
  const std::filesystem::path model = std::filesystem::path(ATTNCTL_SHARED_DIR) / "models" / "stories15M";
  if (!std::filesystem::exists(model)) {
    MESSAGE("skipped: no shared models at " << model.string());
    return;
  }
  const std::string few = many_ids(32, 32000);
  check_bounded({"analyze", model.string(), "--ids", few, "--include", "metrics,logits", "--format", "json"});
  const std::string many = many_ids(256, 32000);
  check_bounded({"analyze", model.string(), "--ids", many, "--include", "metrics", "--format", "json"});
  check_bounded({"weights", model.string(), "--format", "json"});
}

TEST_CASE("commands that would ignore --memory or --limit do not have these options") {
  const std::vector<std::vector<std::string>> refused = {
      {"info", "data/tiny-bert", "--memory", "1G"},
      {"info", "data/tiny-bert", "--limit", "1"},
      {"verify", "data/tiny-bert", "--limit", "1"},
      {"experiment", "hull", "--memory", "1G"},
      {"experiment", "gradients", "--memory", "1G"},
      {"experiment", "scaling", "--memory", "1G"},
      {"experiment", "scaling", "--model", "data/tiny-bert", "--limit", "1"}};
  for (const std::vector<std::string>& command : refused) {
    const RunResult result = run_attnctl(command);
    CAPTURE(result.err);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
  }
  CHECK(run_attnctl({"experiment", "scaling", "--model", "data/tiny-bert", "--memory", "1M"}).status == 5);
  CHECK(run_attnctl({"verify", "data/tiny-bert", "--memory", "1M"}).status == 5);
  const std::string help = run_attnctl({"verify", "--help"}).out;
  CHECK(help.find("estimated memory") != std::string::npos);
  CHECK(help.find("released") == std::string::npos);
}
