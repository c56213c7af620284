#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "checkpoint/checkpoint.hpp"
#include "support/bytes.hpp"
#include "support/command_refusal.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;
using namespace attnctl::test;

namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

/// A shard with one-byte tensors of these names.
std::string shard(const std::vector<std::string>& names) {
  std::string header;
  for (std::size_t i = 0; i < names.size(); ++i) {
    header += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})", i == 0 ? "" : ",",
                          names[i], i, i + 1);
  }
  return safetensors("{" + header + "}", std::string(names.size(), 'x'));
}

std::string index_of(std::string_view map, std::string_view metadata = R"({"total_size":2})") {
  return fmt::format(R"({{"metadata":{},"weight_map":{}}})", metadata, map);
}

/// Writes shards a and b with tensors a and b, and the other files that rows need.
void write_shards(const TempDir& folder) {
  folder.write("a.safetensors", shard({"a"}));
  folder.write("b.safetensors", shard({"b"}));
  folder.write("both.safetensors", shard({"a", "b"}));
  std::filesystem::create_directory(folder.path() / "folder.safetensors");
  mkfifo((folder.path() / "fifo.safetensors").c_str(), 0600);
  std::filesystem::create_symlink("/dev/zero", folder.path() / "zero.safetensors");
  std::filesystem::create_symlink("nowhere", folder.path() / "broken.safetensors");
}

}  // namespace

TEST_CASE("bad indices of shards are rejected") {
  struct Row {
    int kind;
    std::string_view what;
    std::string index;
    std::vector<std::string_view> parts;
  };
  const std::vector<Row> rows = {
      {31,
       "../x",
       index_of(R"({"a":"../a.safetensors"})"),
       {"/weight_map/a", "\"../a.safetensors\"", "out of the directory"}},
      {31, "..", index_of(R"({"a":".."})"), {"/weight_map/a"}},
      {32, "absolute path", index_of(R"({"a":"/etc/a.safetensors"})"), {"/weight_map/a", "absolute"}},
      {33, "a/../b", index_of(R"({"a":"x/../a.safetensors"})"), {"out of the directory"}},
      {33, "an empty part", index_of(R"({"a":"x//a.safetensors"})"), {"empty part"}},
      {34, "backslash", index_of(R"({"a":"..\\a.safetensors"})"), {"backslash"}},
      {34, "NUL", index_of(R"({"a":"a\u0000.safetensors"})"), {"NUL", "a\\x00"}},
      {35, "missing shard", index_of(R"({"a":"gone.safetensors"})"), {"gone.safetensors"}},
      {35, "a broken link", index_of(R"({"a":"broken.safetensors"})"), {"broken.safetensors"}},
      {36,
       "tensor absent from its shard",
       index_of(R"({"a":"b.safetensors"})"),
       {"tensor \"a\" is not in \"b.safetensors\""}},
      {37,
       "tensor in two shards",
       index_of(R"({"a":"a.safetensors","b":"both.safetensors"})"),
       {"tensor \"a\"", "a.safetensors", "both.safetensors"}},
      {37,
       "tensor listed twice",
       index_of(R"({"a":"a.safetensors","a":"a.safetensors"})"),
       {"/weight_map", "\"a\" twice"}},
      {38, "FIFO", index_of(R"({"a":"fifo.safetensors"})"), {"fifo.safetensors", "got a FIFO"}},
      {38, "directory", index_of(R"({"a":"folder.safetensors"})"), {"folder.safetensors", "got a directory"}},
      {38, "/dev/zero", index_of(R"({"a":"zero.safetensors"})"), {"zero.safetensors", "got a device"}},
      {39,
       "names itself",
       index_of(fmt::format(R"({{"a":"{}"}})", kIndex)),
       {"need the name of a .safetensors file"}},
      {35, "empty name", index_of(R"({"a":""})"), {"empty part"}},
      {13, "no weight_map", R"({"metadata":{}})", {"/weight_map", "missing"}},
      {13,
       "weight_map twice",
       R"({"weight_map":{"a":"a.safetensors"},"weight_map":{}})",
       {"/weight_map", "twice"}},
      {12, "a shard that is a number", index_of(R"({"a":1})"), {"/weight_map/a", "got 1"}},
      {12, "a shard that is a list", index_of(R"({"a":["a.safetensors"]})"), {"/weight_map/a"}},
      {10, "top-level array", "[]", {"top level"}},
      {10, "weight_map that is an array", R"({"weight_map":[]})", {"/weight_map"}},
      {10, "weight_map that is text", R"({"weight_map":"a.safetensors"})", {"/weight_map"}},
      {8, "truncated", R"({"weight_map":{"a":)", {"/weight_map/a"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.kind);
    CAPTURE(row.what);
    const TempDir folder;
    write_shards(folder);
    Warnings warnings;
    const auto path = folder.write(kIndex, row.index);
    check_refusal([&] { (void)open_checkpoint(path, warnings); }, Status::bad_input, row.parts);
    check_weights_refused(path);
  }
}

TEST_CASE("shards form one checkpoint") {
  const TempDir folder;
  Warnings warnings;
  folder.write("part/a.safetensors", shard({"z", "a"}));
  folder.write("b.safetensors", shard({"m"}));
  const auto path = folder.write(
      kIndex, index_of(R"({"m":"b.safetensors","z":"part/a.safetensors","a":"part/a.safetensors"})",
                       R"({"total_size":3.0})"));
  const auto checkpoint = open_checkpoint(path, warnings);
  REQUIRE(checkpoint->tensors().size() == 3);
  CHECK(checkpoint->tensors()[0].name == "a");
  CHECK(checkpoint->tensors()[1].name == "m");
  CHECK(checkpoint->tensors()[2].name == "z");
  CHECK(checkpoint->tensors()[1].file.ends_with("b.safetensors"));
  CHECK(checkpoint->tensor(2).bytes.size() == 1);
  CHECK(warnings.list().empty());
}

TEST_CASE("kind 40: a wrong total size, or a tensor that the index does not list, is a warning") {
  const TempDir folder;
  write_shards(folder);
  Warnings warnings;
  const auto path = folder.write(kIndex, index_of(R"({"a":"both.safetensors"})", R"({"total_size":77})"));
  CHECK(open_checkpoint(path, warnings)->tensors().size() == 2);
  const auto list = warnings.list();
  REQUIRE(list.size() == 2);
  CHECK(list[0].code == "total_size");
  CHECK(list[0].message.find("got 77") != std::string::npos);
  CHECK(list[1].code == "unlisted_tensor");
  CHECK(list[1].count == 1);
}

TEST_CASE("kind 41: shards may be symbolic links, as in the hub's cache") {
  const TempDir folder;
  Warnings warnings;
  folder.write("blobs/0123", shard({"a"}));
  folder.write("blobs/4567", index_of(R"({"a":"a.safetensors"})", R"({"total_size":1})"));
  std::filesystem::create_directory(folder.path() / "snapshot");
  std::filesystem::create_symlink("../blobs/0123", folder.path() / "snapshot/a.safetensors");
  std::filesystem::create_symlink("../blobs/4567", folder.path() / "snapshot" / kIndex);
  CHECK(open_checkpoint(folder.path() / "snapshot" / kIndex, warnings)->tensors().size() == 1);
  CHECK(warnings.list().empty());
}
