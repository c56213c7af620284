#include "checkpoint/source.hpp"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "support/bytes.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"
#include "support/torch_bytes.hpp"

using namespace attnctl;
using namespace attnctl::test;

namespace {

/// Sets environment variables until it is destroyed; a variable without a value is unset.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::optional<std::string>>& variables) {
    for (const auto& [name, value] : variables) {
      const char* const old = std::getenv(name.c_str());
      before_[name] = old != nullptr ? std::optional<std::string>(old) : std::nullopt;
      set(name, value);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_) set(name, value);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static void set(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }
  std::map<std::string, std::optional<std::string>> before_;
};

/// Sets the variables that locate the cache to these, and unsets the others.
Environment only_cache(const std::string& variable, const std::string& value) {
  std::map<std::string, std::optional<std::string>> all = {{"HF_HUB_CACHE", std::nullopt},
                                                           {"HF_HOME", std::nullopt},
                                                           {"XDG_CACHE_HOME", ""},
                                                           {"HOME", "/nonexistent"}};
  all[variable] = value;
  return Environment(all);
}

const std::string kConfig = R"({"model_type": "attention", "heads": 1})";
const std::string kWeights =
    safetensors(R"({"W_q":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})", bytes_of<float>({1, 2}));
const std::string kArrays =
    zip({{.name = "W_q.npy",
          .data = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,2)}", bytes_of<float>({1, 2}))}});
const std::string kTorch = zip({{.name = "m/data.pkl", .data = torch_pickle({{"W_q", {}}})},
                                {.name = "m/data/0", .data = bytes_of<float>({1, 2})}});
const std::string kJson = R"({"config":{"heads":2},"W_q":[[1,2]]})";
const std::string kBareJson = R"({"W_q":[[1,2]]})";

ModelSource open(const std::filesystem::path& path, const SourceOptions& options = {}) {
  Warnings warnings;
  return open_model_source(path.string(), options, warnings);
}

}  // namespace

TEST_CASE("a directory holds its configuration and its weights under their usual names") {
  struct Row {
    std::string_view what;
    std::vector<std::pair<std::string, std::string>> files;
    std::string_view weights;  // the file chosen
  };
  for (const Row& row : {
           Row{"safetensors", {{"model.safetensors", kWeights}, {"other.npz", kArrays}}, "model.safetensors"},
           Row{"shards",
               {{"s-1.safetensors", kWeights},
                {"s-2.safetensors", safetensors("{}", "")},
                {"model.safetensors.index.json", R"({"weight_map":{"W_q":"s-1.safetensors"}})"}},
               "s-1.safetensors"},
           Row{"npz by name", {{"golden.npz", kArrays}, {"model.npz", kArrays}}, "model.npz"},
           Row{"JSON", {{"model.json", kBareJson}, {"tokenizer.json", "{}"}}, "model.json"},
           Row{"the only one",
               {{"weights.npz", kArrays}, {"pytorch_model.bin", "x"}, {"vocab.txt", "a"}},
               "weights.npz"},
           Row{"torch", {{"pytorch_model.bin", kTorch}, {"training_args.bin", "x"}}, "pytorch_model.bin"},
           Row{"torch and safetensors",
               {{"pytorch_model.bin", "x"}, {"model.safetensors", kWeights}},
               "model.safetensors"},
           Row{"shards of torch",
               {{"p-1.bin", kTorch}, {"pytorch_model.bin.index.json", R"({"weight_map":{"W_q":"p-1.bin"}})"}},
               "p-1.bin"},
       }) {
    CAPTURE(row.what);
    const TempDir folder;
    folder.write("config.json", kConfig);
    for (const auto& [name, bytes] : row.files) folder.write(name, bytes);
    const ModelSource source = open(folder.path());
    CHECK(source.given == folder.path().string());
    CHECK(source.directory == folder.path());
    CHECK(source.config_path == folder.path() / "config.json");
    CHECK(source.config_text == kConfig);
    CHECK(source.config.at("heads") == 1);
    REQUIRE(source.weights != nullptr);
    REQUIRE(source.weights->find("W_q") != Checkpoint::npos);
    CHECK(source.weights->tensors()[0].file == (folder.path() / row.weights).string());
  }
}

TEST_CASE("the configuration of a weights file comes from the option, the file itself or its directory") {
  const TempDir folder;
  const auto beside = folder.write("a/model.npz", kArrays);
  folder.write("a/config.json", kConfig);
  const auto inside = folder.write("b/model.json", kJson);
  folder.write("b/config.json", kConfig);
  const auto given = folder.write("c/other.json", R"({"heads": 3})");
  CHECK(open(beside).config.at("heads") == 1);
  CHECK(open(beside).directory == folder.path() / "a");
  CHECK(open(inside).config.at("heads") == 2);
  CHECK(open(inside).config_path == inside);
  CHECK(open(inside).config_text == R"({"heads":2})");
  CHECK(open(inside).directory.empty());
  for (const auto& path : {beside, inside, folder.path() / "a"}) {
    CHECK(open(path, {.config = given}).config.at("heads") == 3);
    CHECK(open(path, {.config = given}).config_path == given);
  }
  CHECK(open(inside, {.config = std::nullopt, .need_weights = false}).weights == nullptr);
}

TEST_CASE("a configuration without weights is enough where weights are not needed") {
  const TempDir folder;
  folder.write("config.json", kConfig);
  const ModelSource source = open(folder.path(), {.config = std::nullopt, .need_weights = false});
  CHECK(source.weights == nullptr);
  CHECK(source.config.at("heads") == 1);
}

TEST_CASE("MODEL itself missing is an error of the environment, a file of its layout is bad input") {
  const TempDir folder;
  const Environment no_cache = only_cache("HOME", folder.path().string());
  folder.write("empty/x", "");
  folder.write("no-weights/config.json", kConfig);
  folder.write("foreign/config.json", kConfig);
  folder.write("foreign/tf_model.h5", "x");
  folder.write("torch/config.json", kConfig);
  folder.write("torch/pytorch_model.bin", "x");
  folder.write("several/config.json", kConfig);
  folder.write("several/a.npz", kArrays);
  folder.write("several/b\x1b.safetensors", kWeights);
  folder.write("bad/config.json", "{\"heads\": 1, \"heads\": 2}");
  folder.write("list/config.json", "[]");
  folder.write("huge/config.json", "{\"a\": \"" + std::string(5 << 20, 'a') + "\"}");
  folder.write("alone/model.npz", kArrays);
  folder.write("bare/model.json", kBareJson);
  folder.write("ok/config.json", kConfig);
  folder.write("ok/model.npz", kArrays);
  std::filesystem::create_directories(folder.path() / "fifo");
  mkfifo((folder.path() / "fifo/config.json").c_str(), 0600);
  folder.write("pipe/config.json", kConfig);
  mkfifo((folder.path() / "pipe/model.safetensors").c_str(), 0600);
  folder.write("broken/config.json", kConfig);
  std::filesystem::create_symlink("nowhere", folder.path() / "broken/model.safetensors");
  struct Row {
    const char* model;
    Status status;
    std::vector<std::string_view> parts;
    SourceOptions options = {};
  };
  const std::vector<Row> rows = {
      {"gone", Status::environment, {"gone"}},
      {"gone/model.safetensors", Status::environment, {"gone/model.safetensors"}},
      {"empty", Status::bad_input, {"empty/config.json", "No such file"}},
      {"no-weights", Status::bad_input, {"no-weights", "model.safetensors"}},
      {"foreign", Status::bad_input, {"foreign", "unsupported", "tf_model.h5", "convert"}},
      {"torch", Status::bad_input, {"torch/pytorch_model.bin"}},
      {"several", Status::bad_input, {"2 weights files", "a.npz, b\\x1b.safetensors"}},
      {"bad", Status::bad_input, {"bad/config.json", "\"heads\" twice"}},
      {"list", Status::bad_input, {"list/config.json", "object"}},
      {"huge", Status::bad_input, {"huge/config.json", "more than 4194304 bytes"}},
      {"alone/model.npz", Status::bad_input, {"alone/model.npz", "--config"}},
      {"bare/model.json", Status::bad_input, {"bare/model.json", "--config"}},
      {"ok", Status::environment, {"gone.json", "No such file"}, {.config = "gone.json"}},
      {"ok/model.npz", Status::environment, {"got a device"}, {.config = "/dev/zero"}},
      {"fifo", Status::bad_input, {"fifo/config.json", "got a FIFO"}},
      {"pipe", Status::bad_input, {"pipe/model.safetensors", "got a FIFO"}},
      {"broken", Status::bad_input, {"broken/model.safetensors"}},
      {"fifo/config.json", Status::environment, {"got a FIFO"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.model);
    check_refusal([&] { (void)open(folder.path() / row.model, row.options); }, row.status, row.parts);
  }
  Warnings warnings;
  for (const char* name :
       {"", "org/no-such-model", "no-such-model", "a/b/c", "../no-such/x", "org/..", "-\x1b"}) {
    CAPTURE(name);
    check_refusal([&] { (void)open_model_source(name, {}, warnings); }, Status::environment, {});
  }
}

TEST_CASE("a name is looked up in the local Hugging Face cache") {
  struct Row {
    const char* variable;
    std::string_view below;  // of the cache
  };
  for (const Row& row : {Row{"HF_HUB_CACHE", "."}, Row{"HF_HOME", "hub"},
                         Row{"XDG_CACHE_HOME", "huggingface/hub"}, Row{"HOME", ".cache/huggingface/hub"}}) {
    CAPTURE(row.variable);
    const TempDir folder;
    const Environment cache = only_cache(row.variable, folder.path().string());
    const std::string model = fmt::format("{}/models--org--name_1.5", row.below);
    folder.write(model + "/refs/main", "abc123\n");
    folder.write(model + "/blobs/1", kWeights);
    folder.write(model + "/snapshots/abc123/config.json", kConfig);
    std::filesystem::create_symlink("../../blobs/1",
                                    folder.path() / model / "snapshots/abc123/model.safetensors");
    Warnings warnings;
    const ModelSource source = open_model_source("org/name_1.5", {}, warnings);
    CHECK(source.given == "org/name_1.5");
    CHECK(std::filesystem::equivalent(source.directory, folder.path() / model / "snapshots/abc123"));
    CHECK(source.weights->find("W_q") == 0);
  }
}

TEST_CASE("an incomplete or hostile cache entry is refused") {
  struct Row {
    std::string_view what;
    std::optional<std::string> reference;
    Status status;
    std::vector<std::string_view> parts;
  };
  for (const Row& row : {
           Row{"no refs/main", std::nullopt, Status::bad_input, {"refs/main"}},
           Row{"an empty one", "", Status::bad_input, {"refs/main", "got \"\""}},
           Row{"out of the cache", "../../../etc", Status::bad_input, {"refs/main", "got \"../../../etc\""}},
           Row{"absolute", "/etc", Status::bad_input, {"refs/main"}},
           Row{"dots", "..", Status::bad_input, {"refs/main"}},
           Row{"NUL", std::string("a\0b", 3), Status::bad_input, {"a\\x00b"}},
           Row{"long", std::string(1000, 'a'), Status::bad_input, {"refs/main"}},
           Row{"no such snapshot", "abc", Status::bad_input, {"snapshots/abc", "missing"}},
           Row{"a snapshot without files", "empty", Status::bad_input, {"snapshots/empty/config.json"}},
       }) {
    CAPTURE(row.what);
    const TempDir folder;
    const Environment cache = only_cache("HF_HUB_CACHE", folder.path().string());
    std::filesystem::create_directories(folder.path() / "models--name/snapshots/empty");
    if (row.reference) folder.write("models--name/refs/main", *row.reference);
    Warnings warnings;
    check_refusal([&] { (void)open_model_source("name", {}, warnings); }, row.status, row.parts);
  }
}
