#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/readers.hpp"
#include "support/bytes.hpp"
#include "support/refusal.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"
#include "support/torch_bytes.hpp"

using namespace attnctl;
using namespace attnctl::test;

namespace {

const std::filesystem::path kFolder = std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden/torch";

std::unique_ptr<Checkpoint> open(const std::filesystem::path& path) {
  Warnings warnings;
  return open_checkpoint(path, warnings);
}

std::unique_ptr<Checkpoint> open_bytes(const std::string& bytes) {
  Warnings warnings;
  return open_torch_file({"memory.bin", std::as_bytes(std::span(bytes))}, warnings);
}

void check_same(Checkpoint& got, Checkpoint& want) {
  REQUIRE(got.tensors().size() == want.tensors().size());
  for (int pass = 0; pass < 2; ++pass) {  // the second after a release
    for (std::size_t i = 0; i < want.tensors().size(); ++i) {
      CAPTURE(want.tensors()[i].name);
      CHECK(got.tensors()[i].name == want.tensors()[i].name);
      const TensorView a = got.tensor(i);
      const TensorView b = want.tensor(i);
      CHECK(a.dtype == b.dtype);
      CHECK(a.shape == b.shape);
      CHECK(std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end()));
      got.release(i);
    }
  }
}

}  // namespace

TEST_CASE("files of torch.save, both layouts and all protocols, hold what safetensors hold") {
  struct Row {
    const char* file;
    const char* same;
  };
  for (const Row& row :
       {Row{"zip.bin", "all"}, Row{"zip3.pt", "all"}, Row{"zip4.pt", "all"}, Row{"zip5.pt", "all"},
        Row{"legacy.bin", "all"}, Row{"legacy4.pth", "all"}, Row{"unsigned.pt", "unsigned"},
        Row{"module.bin", "module"}, Row{"training.pt", "training"}, Row{"training-legacy.pt", "training"}}) {
    CAPTURE(row.file);
    const auto want = open(kFolder / (std::string(row.same) + ".safetensors"));
    REQUIRE(want->tensors().size() > 2);
    check_same(*open(kFolder / row.file), *want);
  }
}

TEST_CASE("what torch.save wrote that is no dictionary of known tensors is refused by name") {
  struct Row {
    const char* file;
    std::vector<std::string_view> parts;
  };
  for (const Row& row :
       {Row{"two.pt", {"unsupported", "\"model\", \"ema\""}},
        Row{"whole-module.pt", {"unsupported name torch.nn.modules.linear.Linear", "nothing was executed"}},
        Row{"complex.pt", {"unsupported name torch.ComplexFloatStorage"}}}) {
    CAPTURE(row.file);
    check_refusal([&] { (void)open(kFolder / row.file); }, Status::bad_input, row.parts);
  }
}

TEST_CASE("elements of a big-endian machine are turned around") {
  const TempDir folder;
  const auto big =
      folder.write("big.pt", zip({{.name = "m/data.pkl", .data = torch_pickle({{"w", {}}})},
                                  {.name = "m/byteorder", .data = "big"},
                                  {.name = "m/data/0", .data = {"\x3f\x80\0\0\0\0\x80\x3f", 8}}}));
  const auto checkpoint = open(big);
  const TensorView view = checkpoint->tensor(0);
  const std::string bytes(reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size());
  CHECK(bytes == std::string("\0\0\x80\x3f\x3f\x80\0\0", 8));
}

TEST_CASE("a file of torch that is cut anywhere is refused") {
  for (const char* name : {"zip.bin", "zip4.pt", "legacy.bin", "legacy4.pth"}) {
    CAPTURE(name);
    const std::string whole = slurp(kFolder / name);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      CAPTURE(size);
      check_refusal([&] { (void)open_bytes(whole.substr(0, size)); }, Status::bad_input, {"memory.bin"});
    }
  }
}

TEST_CASE("a file of torch with any byte changed is read or refused") {
  for (const char* name : {"module.bin", "legacy.bin"}) {
    CAPTURE(name);
    const std::string whole = slurp(kFolder / name);
    std::size_t refused = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ (i % 2 == 0 ? '\xff' : '\x01'));
      try {
        const auto checkpoint = open_bytes(changed);
        for (std::size_t t = 0; t < checkpoint->tensors().size(); ++t) (void)checkpoint->tensor(t);
      } catch (const Error& error) {
        CHECK((error.status() == Status::bad_input || error.status() == Status::limit));
        ++refused;
      }
    }
    CHECK(refused > whole.size() / 4);
  }
}

TEST_CASE("a damaged storage is found out by its CRC") {
  const TempDir folder;
  const auto path = folder.write("m.pt", zip({{.name = "m/data.pkl", .data = torch_pickle({{"w", {}}})},
                                              {.name = "m/data/0", .data = std::string(8, 'x'), .crc = 1}}));
  const auto checkpoint = open(path);
  check_refusal([&] { (void)checkpoint->tensor(0); }, Status::bad_input, {"m/data/0", "CRC"});
}

TEST_CASE("PyTorch shards are found by their index") {
  const TempDir folder;
  const auto shard = [&](const char* file, const char* name) {
    folder.write(file, zip({{.name = "m/data.pkl", .data = torch_pickle({{name, {}}})},
                            {.name = "m/data/0", .data = bytes_of<float>({1, 2})}}));
  };
  shard("pytorch_model-1.bin", "a");
  shard("pytorch_model-2.bin", "b");
  const auto index = folder.write(
      "pytorch_model.bin.index.json",
      R"({"metadata":{"total_size":16},"weight_map":{"a":"pytorch_model-1.bin","b":"pytorch_model-2.bin"}})");
  Warnings warnings;
  const auto checkpoint = open_checkpoint(index, warnings);
  CHECK(warnings.list().empty());
  REQUIRE(checkpoint->tensors().size() == 2);
  CHECK(checkpoint->find("b") == 1);
  const auto other = folder.write("x.bin.index.json", R"({"weight_map":{"a":"x.safetensors"}})");
  check_refusal([&] { (void)open(other); }, Status::bad_input,
                {"x.safetensors", "need the name of a .bin file"});
}

TEST_CASE("a directory with pytorch_model.bin gives what its safetensors give") {
  const std::filesystem::path data = std::filesystem::path(ATTNCTL_SOURCE_DIR) / "data";
  const TempDir folder;
  std::filesystem::create_directory(folder.path() / "tiny-bert");
  std::filesystem::copy_file(data / "tiny-bert/config.json", folder.path() / "tiny-bert/config.json");
  folder.write("tiny-bert/pytorch_model.bin", torch_file_of(*open(data / "tiny-bert/model.safetensors")));
  const auto weights = [](const std::filesystem::path& directory) {
    RunOptions options;
    options.directory = directory.string();
    const RunResult run = run_attnctl({"weights", "tiny-bert", "--format", "json"}, options);
    CAPTURE(run.err);
    CHECK(run.status == 0);
    return run.out;
  };
  const std::string want = weights(data);
  CHECK(want.size() > 100);
  CHECK(weights(folder.path()) == want);
}
