// Outputs never replace inputs: tests every path that a command writes against every file that it reads, with
// the real binary.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/run.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kSnapshot = "cache/models--org--bert/snapshots/abc";

/// A folder with a model, the same model in a Hugging Face cache (as links to blobs), a corpus, frequencies,
/// two study state files, and links. Commands run in this folder.
struct Place {
  TempDir folder;
  RunOptions options;

  Place() {
    const fs::path root = folder.path();
    fs::copy(ATTNCTL_SOURCE_DIR "/data/tiny-bert", root / "m");
    folder.write("c.txt", "the cat sat\na dog ran\nit was tired\nthe mat\n");
    folder.write("f.tsv", "the\t5\n");
    folder.write("cache/models--org--bert/refs/main", "abc");
    fs::copy(root / "m", root / "cache/models--org--bert/blobs");
    fs::create_directories(root / kSnapshot);
    for (const auto& blob : fs::directory_iterator(root / "m"))
      fs::create_symlink("../../blobs" / blob.path().filename(), root / kSnapshot / blob.path().filename());
    fs::create_symlink("m/model.safetensors", root / "link.json");
    fs::create_hard_link(root / "c.txt", root / "same.json");
    fs::create_directory(root / "tables");
    fs::create_symlink("../m/model.safetensors", root / "tables/heads.csv");
    options.directory = root.string();
    options.environment["HF_HUB_CACHE"] = (root / "cache").string();
    for (const std::string shard : {"1", "2"})
      REQUIRE(run({"study", "m", "--input", "c.txt", "--batch-tokens", "8", "--shard", shard + "/2",
                   "--state", shard + ".state"})
                  .status == 0);
  }
  [[nodiscard]] RunResult run(const Words& words) const { return run_attnctl(words, options); }
  [[nodiscard]] std::string bytes(const std::string& file) const { return slurp(folder.path() / file); }
};

/// A command line that would replace `file`, and the words that the error must contain.
struct Row {
  std::string line;
  std::string file;
  Words names;
};

Words words_of(const std::string& line) {
  Words words(1);
  for (const char c : line) {
    if (c == ' ')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

void check_refused(const Place& place, const Row& row) {
  CAPTURE(row.line);
  const std::string before = place.bytes(row.file);
  const RunResult result = place.run(words_of(row.line));
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK_MESSAGE(std::count(result.err.begin(), result.err.end(), '\n') == 1, result.err);
  for (const std::string& name : row.names)
    CHECK_MESSAGE(result.err.find(name) != std::string::npos, name, " is not in: ", result.err);
  CHECK(place.bytes(row.file) == before);
}

}  // namespace

TEST_CASE("--state and --checkpoint never replace an input") {
  const Place place;
  const std::string study = "study m --input c.txt ";
  for (const Row& row : {
           Row{study + "--shard 1/2 --state m/model.safetensors", "m/model.safetensors", {"--state"}},
           Row{study + "--state m/config.json", "m/config.json", {"--state m/config.json"}},
           Row{study + "--state m/tokenizer.json", "m/tokenizer.json", {"--state"}},
           Row{study + "--state ./m/../c.txt", "c.txt", {"--state ./m/../c.txt", "replace c.txt"}},
           Row{study + "--state same.json", "c.txt", {"--state same.json", "replace c.txt"}},
           Row{study + "--state link.json", "m/model.safetensors", {"link.json", "m/model.safetensors"}},
           Row{study + "--frequencies f.tsv --state f.tsv", "f.tsv", {"--state f.tsv"}},
           Row{study + "--checkpoint c.txt", "c.txt", {"--checkpoint c.txt"}},
           Row{study + "--shard 1/2 --checkpoint m/vocab.txt", "m/vocab.txt", {"--checkpoint"}},
           Row{"study m/model.safetensors --input c.txt --state m/config.json", "m/config.json", {"--state"}},
           Row{"study org/bert --input c.txt --state " + std::string(kSnapshot) + "/model.safetensors",
               "cache/models--org--bert/blobs/model.safetensors",
               {"--state", "snapshots/abc/model.safetensors"}},
           Row{"merge 1.state 2.state --state 2.state", "2.state", {"--state 2.state", "replace 2.state"}},
           Row{"merge 1.state 2.state --format json -o ./1.state",
               "1.state",
               {"-o ./1.state", "replace 1.state"}},
       })
    check_refused(place, row);
  const RunResult standard_input = run_shell(
      "attnctl study m --input - --input-format txt --measures metrics -o c.txt --format text < c.txt",
      place.options);
  CHECK(standard_input.status == 2);
  CHECK_MESSAGE(standard_input.err.find("-o c.txt: would replace /dev/stdin") != std::string::npos,
                standard_input.err);
  CHECK(run_shell("attnctl tokenize m --text - -o c.txt < c.txt", place.options).status == 2);
  CHECK(place.bytes("c.txt").starts_with("the cat sat\n"));
}

TEST_CASE("two outputs of a command must be different files") {
  const Place place;
  for (const Row& row : {
           Row{"study m --input c.txt --state new.json -o new.json", "c.txt", {"-o new.json", "--state"}},
           Row{"study m --input c.txt --state ./new.json -o new.json", "c.txt", {"--state ./new.json"}},
           Row{"study m --input c.txt --checkpoint new -o m/../new", "c.txt", {"--checkpoint new"}},
           Row{"study m --input c.txt --state out/heads.csv --format csv -o out/", "c.txt", {"-o out/"}},
           Row{"merge 1.state 2.state --state new.json -o new.json", "1.state", {"--state new.json"}},
           Row{"experiment diversity --d 8 --heads 2 --draws 1 --save new -o new/config.json",
               "c.txt",
               {"--save"}},
       }) {
    check_refused(place, row);
    CHECK_FALSE(fs::exists(place.folder.path() / "new.json"));
  }
  CHECK(place.run(words_of("merge 1.state 2.state --state /dev/null -o /dev/null")).status == 0);
}

TEST_CASE("--state and --checkpoint are opened before computing") {
  const Place place;
  place.folder.write("bad.txt", "the cat\n\xFF\n");  // the run itself would end with status 3
  for (const std::string option : {"--state", "--checkpoint"}) {
    for (const std::string file : {"absent/x.state", "m", "c.txt/x.state"}) {
      CAPTURE(option);
      CAPTURE(file);
      const RunResult result =
          place.run({"study", "m", "--input", "bad.txt", "--measures", "metrics", option, file});
      CHECK(result.status == 4);
      CHECK_MESSAGE(result.err.find(file) != std::string::npos, result.err);
      CHECK(result.out.empty());
    }
  }
  const RunResult no_state =
      place.run({"study", "m", "--input", "bad.txt", "--measures", "metrics", "--checkpoint", "f.tsv"});
  CHECK(no_state.status == 3);
  CHECK_MESSAGE(no_state.err.find("f.tsv") != std::string::npos, no_state.err);
  CHECK(place.bytes("f.tsv") == "the\t5\n");
  CHECK(place.run({"merge", "1.state", "2.state", "--state", "absent/x"}).out.empty());
  CHECK(place.run({"study", "m", "--input", "bad.txt", "--state", "new.state"}).status == 3);
  CHECK_FALSE(fs::exists(place.folder.path() / "new.state"));
  for (const auto& entry : fs::directory_iterator(place.folder.path()))
    CHECK_FALSE(entry.path().filename().string().starts_with(".attnctl-"));
}

TEST_CASE("-o never replaces an input, under any of its names") {
  const Place place;
  place.folder.write("shards/model.safetensors.index.json", "{}");
  place.folder.write("shards/part/one.safetensors", "");
  const std::string blob = "cache/models--org--bert/blobs/model.safetensors";
  for (const Row& row : {
           Row{"weights org/bert --format json -o " + std::string(kSnapshot) + "/model.safetensors",
               blob,
               {"-o", "snapshots"}},
           Row{"weights org/bert --format json -o " + blob, blob, {"-o " + blob, "snapshots"}},
           Row{"tokenize org/bert --text cat --format json -o " + std::string(kSnapshot) + "/vocab.txt",
               "cache/models--org--bert/blobs/vocab.txt",
               {"vocab.txt"}},
           Row{"weights shards --format json -o shards/part/one.safetensors",
               "shards/part/one.safetensors",
               {"-o shards/part/one.safetensors"}},
           Row{"weights m --format csv -o tables",
               "m/model.safetensors",
               {"-o tables", "m/model.safetensors"}},
           Row{"weights m/model.safetensors -o m/config.json", "m/config.json", {"-o m/config.json"}},
           Row{"weights m -o link.json", "m/model.safetensors", {"-o link.json", "m/model.safetensors"}},
           Row{"bench m --input same.json --repeat 1 -o same.json", "c.txt", {"-o same.json"}},
           Row{"info org/bert --format json -o " + blob, blob, {"-o"}},
           Row{"info org/bert -o cache/models--org--bert/refs/main",
               "cache/models--org--bert/refs/main",
               {"-o"}},
       })
    check_refused(place, row);
}

TEST_CASE("outputs may be in the model's folder, and be written again") {
  const Place place;
  for (const char* line : {"study m --input c.txt --shard 1/2 --state m/1.state",
                           "study m --input c.txt --checkpoint m/run.state -o m/study.json",
                           "study m --input c.txt --state new/a.state --format csv -o new",
                           "weights m -o m/weights.npz", "weights m --format csv -o m"}) {
    CAPTURE(line);
    for (int round = 0; round < 2; ++round) {
      const RunResult result = place.run(words_of(line));
      CHECK_MESSAGE(result.status == 0, result.err);
    }
  }
}

}  // namespace attnctl::test
