#include <cmath>
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
using namespace attnctl::checkpoint;
using namespace attnctl::test;

namespace {

/// One tensor of the header.
std::string entry(std::string_view name, std::string_view dtype, std::string_view shape,
                  std::string_view offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

std::string header(std::string_view entries) {
  return fmt::format("{{{}}}", entries);
}

std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets,
                std::size_t data = 8) {
  return safetensors(header(entry("w", dtype, shape, offsets)), std::string(data, '\1'));
}

/// One tensor whose fields are JSON.
std::string one_field(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return safetensors(
      fmt::format(R"({{"w":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape, offsets),
      std::string(8, '\1'));
}

std::string ones(std::size_t count) {
  std::string list = "[1";
  for (std::size_t i = 1; i < count; ++i) list += ",1";
  return list + "]";
}

std::string two(std::string_view first, std::string_view second, std::size_t data) {
  return safetensors(header(entry("a", "U8", "[4]", first) + "," + entry("b", "U8", "[4]", second)),
                     std::string(data, '\1'));
}

struct Row {
  int kind;  // number in the list of bad inputs
  std::string_view what;
  std::string bytes;
  std::vector<std::string_view> parts;  // of the message, besides the file's name
};

const std::string kGood = one("F32", "[2]", "[0,8]");

std::vector<Row> rows() {
  return {
      {1, "empty file", "", {"got 0 bytes, need at least 8"}},
      {2, "under 8 bytes", "\x10\0\0", {"need at least 8"}},
      {3, "header length > file", little_endian(100, 8) + "{}", {"header length @byte 0", "got 100"}},
      {4, "length 2^64-1", little_endian(~0ULL, 8) + "{}", {"got 18446744073709551615", "at most 100000000"}},
      {5, "length 100,000,001", little_endian(100'000'001, 8) + "{}", {"got 100000001"}},
      {6, "length 0", little_endian(0, 8) + "{}", {"got 0, need a JSON object"}},
      {7, "header not UTF-8", safetensors("{\"\xff\":1}", ""), {"@byte 10", "UTF-8"}},
      {8,
       "truncated JSON",
       safetensors(R"({"w":{"dtype":"F32")", ""),
       {"/w/dtype", "unexpected end of input"}},
      {9, "garbage after }", safetensors("{}x", ""), {"@byte 10"}},
      {9, "NUL after }", safetensors(std::string_view("{}\0{}", 5), ""), {"@byte 10", "NUL"}},
      {10, "top-level array", safetensors("[]", ""), {"top level", "got an array, need an object"}},
      {10, "top-level number", safetensors("7", ""), {"got 7, need an object"}},
      {11,
       "duplicate key",
       safetensors(header(entry("w", "U8", "[4]", "[0,4]") + "," + entry("w", "U8", "[4]", "[4,8]")),
                   "12345678"),
       {"tensor \"w\"", "twice"}},
      {11,
       "duplicate field",
       safetensors(R"({"w":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678"),
       {"/w", "\"dtype\" twice"}},
      {11,
       "duplicate key in metadata",
       safetensors(R"({"__metadata__":{"a":"1","a":"2"}})", ""),
       {"__metadata__", "\"a\" twice"}},
      {11,
       "metadata twice",
       safetensors(R"({"__metadata__":{},"__metadata__":{}})", ""),
       {"__metadata__", "twice"}},
      {12,
       "metadata with a number",
       safetensors(R"({"__metadata__":{"a":1}})", ""),
       {"/__metadata__/a", "got 1, need a string"}},
      {12,
       "metadata with an object",
       safetensors(R"({"__metadata__":{"a":{}}})", ""),
       {"/__metadata__/a", "need a string"}},
      {12,
       "metadata that is text",
       safetensors(R"({"__metadata__":"a"})", ""),
       {"/__metadata__", "need an object"}},
      {13,
       "missing dtype",
       safetensors(R"({"w":{"shape":[2],"data_offsets":[0,8]}})", "12345678"),
       {"/w", "missing"}},
      {13,
       "missing shape",
       safetensors(R"({"w":{"dtype":"F32","data_offsets":[0,8]}})", "12345678"),
       {"/w", "missing"}},
      {13,
       "missing offsets",
       safetensors(R"({"w":{"dtype":"F32","shape":[2]}})", "12345678"),
       {"/w", "missing"}},
      {13,
       "unknown field",
       safetensors(R"({"w":{"dtype":"F32","shape":[2],"strides":[1],"data_offsets":[0,8]}})", "12345678"),
       {"/w/strides", "unsupported"}},
      {13, "a tensor that is a number", safetensors(R"({"w":3})", ""), {"/w", "got 3, need an object"}},
      {13, "a dtype that is an array", one_field("[4]", "[2]", "[0,8]"), {"/w", "need the name of a dtype"}},
      {13, "a shape that is a text", one_field("\"F32\"", "\"2\"", "[0,8]"), {"/w", "arrays for shape"}},
      {13, "offsets that are a text", one_field("\"F32\"", "[2]", "\"0\""), {"/w", "arrays for shape"}},
      {14, "one offset", one("F32", "[2]", "[0]"), {"/w/data_offsets", "got 1 offsets"}},
      {14, "three offsets", one("F32", "[2]", "[0,4,8]"), {"/w/data_offsets", "got 3 offsets"}},
      {15, "negative offset", one("F32", "[2]", "[-1,8]"), {"/w/data_offsets/0", "got -1"}},
      {15, "float offset", one("F32", "[2]", "[0,8.0]"), {"/w/data_offsets/1", "got 8"}},
      {15, "string offset", one("F32", "[2]", R"([0,"8"])"), {"/w/data_offsets/1", "got \"8\""}},
      {15, "offsets in an object", one("F32", "[2]", "{}"), {"/w/data_offsets", "got an object"}},
      {15, "nested offsets", one("F32", "[2]", "[[0,8]]"), {"/w/data_offsets/0", "got an array"}},
      {16, "begin > end", one("F32", "[2]", "[8,0]"), {"tensor \"w\"", "begin 8 after end 0"}},
      {17, "end > EOF", one("F32", "[3]", "[0,12]"), {"tensor \"w\"", "got end 12, need at most the 8"}},
      {18, "hole", two("[0,4]", "[5,9]", 9), {"tensor \"b\"", "got begin 5, need 4", "no tensor"}},
      {18, "hole at the beginning", one("U8", "[4]", "[4,8]"), {"tensor \"w\"", "got begin 4, need 0"}},
      {19, "overlap", two("[0,4]", "[3,7]", 7), {"tensor \"b\"", "got begin 3, need 4", "overlaps"}},
      {19, "the same range", two("[0,4]", "[0,4]", 4), {"got begin 0, need 4", "overlaps"}},
      {20,
       "trailing bytes",
       one("F32", "[2]", "[0,8]", 11),
       {"got 3 bytes @byte", "that belong to no tensor"}},
      {20,
       "bytes and no tensor",
       safetensors("{}", "x"),
       {"got 1 bytes @byte 10 that belong to no tensor, need none"}},
      {21,
       "two bytes short",
       kGood.substr(0, kGood.size() - 2),
       {"tensor \"w\"", "got end 8, need at most the 6", "was the file downloaded whole?"}},
      {22, "FP4", one("F4", "[16]", "[0,8]"), {"/w/dtype", "unsupported dtype \"F4\"", "BF16"}},
      {22, "a dtype of another case", one("f32", "[2]", "[0,8]"), {"unsupported dtype \"f32\""}},
      {22,
       "a dtype that is a number",
       safetensors(R"({"w":{"dtype":32,"shape":[2],"data_offsets":[0,8]}})", "12345678"),
       {"/w/dtype", "got 32"}},
      {23,
       "shape x dtype too small",
       one("F32", "[1]", "[0,8]"),
       {"tensor \"w\"", "got 8 bytes, need 4 for shape [1] of F32"}},
      {23, "shape x dtype too large", one("F64", "[2]", "[0,8]"), {"got 8 bytes, need 16"}},
      {24, "product wraps small", one("F32", "[9223372036854775809,2]", "[0,8]"), {"tensor \"w\"", "shape"}},
      {24, "bytes wrap small", one("F32", "[4611686018427387906]", "[0,8]"), {"tensor \"w\"", "shape"}},
      {25,
       "product wraps to 0",
       one("F32", "[4294967296,4294967296]", "[0,0]", 0),
       {"tensor \"w\"", "shape"}},
      {25,
       "0 and a product that wraps",
       one("F32", "[0,4294967296,4294967296]", "[0,0]", 0),
       {"tensor \"w\"", "shape"}},
      {26, "odd count of 4-bit values", one("F4", "[15]", "[0,8]"), {"unsupported dtype \"F4\""}},
      {27, "offsets near 2^64", two("[0,18446744073709551612]", "[18446744073709551612,4]", 8), {"tensor"}},
      {27, "offset beyond 2^64", one("F32", "[2]", "[0,18446744073709551624]"), {"/w/data_offsets/1"}},
      {29,
       "a name with ESC and NUL that is bad",
       safetensors(header(entry("\\u001b[31m\\u0000../x", "F32", "[3]", "[0,8]")), "12345678"),
       {"tensor \"\\x1b[31m\\x00../x\""}},
      {29,
       "a long name",
       safetensors(header(entry(std::string(100'000, 'n'), "F32", "[3]", "[0,8]")), "12345678"),
       {"tensor \"nnn", "..."}},
      {82, "deep nesting", safetensors(std::string(100'000, '['), ""), {"top level"}},
      {82, "65 dimensions", one("U8", ones(65), "[0,8]"), {"/w/shape/64", "got more than 64 numbers"}},
      {84, "1e999 as an offset", one("F32", "[2]", "[0,1e999]"), {"/w/data_offsets"}},
      {85, "byte order mark", safetensors("\xEF\xBB\xBF{}", ""), {"byte order mark"}},
      {85, "lone surrogate", safetensors(R"({"\ud800":1})", ""), {"surrogate"}},
  };
}

}  // namespace

TEST_CASE("errors of bad safetensors files name the tensor and field") {
  const TempDir folder;
  Warnings warnings;
  for (const Row& row : rows()) {
    CAPTURE(row.kind);
    CAPTURE(row.what);
    const auto path = folder.write("model.safetensors", row.bytes);
    auto parts = row.parts;
    parts.emplace_back("model.safetensors");
    check_refusal([&] { (void)open_checkpoint(path, warnings); }, Status::bad_input, parts);
    check_weights_refused(path);
  }
}

TEST_CASE("a safetensors file that is cut at any byte is rejected") {
  const TempDir folder;
  Warnings warnings;
  for (std::size_t size = 0; size < kGood.size(); ++size) {
    CAPTURE(size);
    const auto path = folder.write("model.safetensors", kGood.substr(0, size));
    check_refusal([&] { (void)open_checkpoint(path, warnings); }, Status::bad_input, {"model.safetensors"});
  }
}

TEST_CASE("kind 30: scalars, empty tensors that share an offset and white space are accepted") {
  const TempDir folder;
  Warnings warnings;
  const std::string entries =
      entry("scalar", "F32", "[]", "[0,4]") + "," + entry("empty", "F32", "[0,3]", "[4,4]") + "," +
      entry("empty2", "I8", "[0]", "[4,4]") + "," + entry("last", "U8", "[2]", "[4,6]");
  const std::string text = " \n\t{\"__metadata__\":{\"format\":\"pt\"}," + entries + "}   ";
  const auto path = folder.write("m.safetensors", safetensors(text, bytes_of<float>({1.5F}) + "ab"));
  const auto checkpoint = open_checkpoint(path, warnings);
  REQUIRE(checkpoint->tensors().size() == 4);
  CHECK(checkpoint->tensors()[0].name == "empty");
  CHECK(checkpoint->tensor(0).bytes.empty());
  CHECK(checkpoint->tensor(0).shape == Shape{0, 3});
  const std::size_t scalar = checkpoint->find("scalar");
  REQUIRE(scalar != Checkpoint::npos);
  CHECK(checkpoint->tensor(scalar).shape.empty());
  float value = 0;
  convert(DType::f32, checkpoint->tensor(scalar).bytes, {&value, 1});
  CHECK(value == 1.5F);
  CHECK(checkpoint->find("absent") == Checkpoint::npos);
  CHECK(open_checkpoint(folder.write("e.safetensors", safetensors("{}", "")), warnings)->tensors().empty());
}

TEST_CASE("kind 29: names of tensors have no special meaning") {
  const TempDir folder;
  Warnings warnings;
  const std::string entries =
      entry("../../etc/passwd", "U8", "[1]", "[0,1]") + "," + entry("a\\u0000b", "U8", "[1]", "[1,2]");
  const auto path = folder.write("m.safetensors", safetensors(header(entries), "xy"));
  const auto checkpoint = open_checkpoint(path, warnings);
  CHECK(checkpoint->find("../../etc/passwd") == 0);
  CHECK(checkpoint->find(std::string_view("a\0b", 3)) == 1);
}

TEST_CASE("every dtype of safetensors is read by its name") {
  const TempDir folder;
  Warnings warnings;
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i16, DType::i8,
        DType::u64, DType::u32, DType::u16, DType::u8, DType::boolean}) {
    CAPTURE(name_of(dtype));
    const std::size_t size = 3 * size_of(dtype);
    const std::string bytes = one(name_of(dtype), "[3,1]", fmt::format("[0,{}]", size), size);
    const auto checkpoint = open_checkpoint(folder.write("m.safetensors", bytes), warnings);
    CHECK(checkpoint->tensors()[0].dtype == dtype);
    CHECK(checkpoint->tensors()[0].shape == Shape{3, 1});
    CHECK(checkpoint->tensor(0).bytes.size() == size);
  }
}

TEST_CASE("kind 28: a hundred thousand tensors are accepted") {
  const TempDir folder;
  Warnings warnings;
  std::string entries;
  for (int i = 0; i < 100'000; ++i) {
    if (i > 0) entries += ',';
    entries += entry(fmt::format("model.layers.{}.weight", i), "U8", "[2]",
                     fmt::format("[{},{}]", 2 * i, 2 * i + 2));
  }
  const auto path = folder.write("m.safetensors", safetensors(header(entries), std::string(200'000, 'x')));
  const auto checkpoint = open_checkpoint(path, warnings);
  CHECK(checkpoint->tensors().size() == 100'000);
  CHECK(checkpoint->find("model.layers.99999.weight") != Checkpoint::npos);
}

TEST_CASE("safetensors files of the format's own library hold their golden weights") {
  Warnings warnings;
  const std::filesystem::path golden = std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden";
  const auto checkpoint = open_checkpoint(golden / "bert/model.safetensors", warnings);
  const std::size_t index = checkpoint->find("bert.embeddings.word_embeddings.weight");
  REQUIRE(index != Checkpoint::npos);
  CHECK(checkpoint->tensors()[index].shape == Shape{37, 24});
  CHECK(warnings.list().empty());
}

TEST_CASE("real safetensors files are read") {
  const std::filesystem::path models = std::filesystem::path(ATTNCTL_SHARED_DIR) / "models";
  if (!std::filesystem::exists(models)) {
    MESSAGE("skipped: no " << models.string());
    return;
  }
  struct Real {
    std::string_view name;
    std::string_view tensor;
    Shape shape;
  };
  for (const Real& real : {Real{"stories15M", "model.embed_tokens.weight", {32000, 288}},
                           Real{"stories260K", "model.embed_tokens.weight", {512, 64}},
                           Real{"rxnmapper-albert", "albert.embeddings.LayerNorm.bias", {128}}}) {
    CAPTURE(real.name);
    Warnings warnings;
    const auto checkpoint = open_checkpoint(models / real.name / "model.safetensors", warnings);
    const std::size_t index = checkpoint->find(real.tensor);
    REQUIRE(index != Checkpoint::npos);
    CHECK(checkpoint->tensors()[index].shape == real.shape);
    std::vector<float> values(checkpoint->tensor(index).bytes.size() / 4);
    convert(DType::f32, checkpoint->tensor(index).bytes, std::span(values));
    double sum = 0;
    for (const float value : values) sum += std::abs(static_cast<double>(value));
    CHECK(sum > 0);
    CHECK(std::isfinite(sum));
  }
}

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
       {"/weight_map/a", "\"../a.safetensors\"", "contains the part \"..\""}},
      {31, "..", index_of(R"({"a":".."})"), {"/weight_map/a"}},
      {32, "absolute path", index_of(R"({"a":"/etc/a.safetensors"})"), {"/weight_map/a", "absolute"}},
      {33, "a/../b", index_of(R"({"a":"x/../a.safetensors"})"), {"contains the part \"..\""}},
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
      {38, "FIFO", index_of(R"({"a":"fifo.safetensors"})"), {"fifo.safetensors", "is a FIFO"}},
      {38, "directory", index_of(R"({"a":"folder.safetensors"})"), {"folder.safetensors", "is a directory"}},
      {38, "/dev/zero", index_of(R"({"a":"zero.safetensors"})"), {"zero.safetensors", "is a device"}},
      {39,
       "names itself",
       index_of(fmt::format(R"({{"a":"{}"}})", kIndex)),
       {"need the name of a .safetensors file"}},
      {35, "empty name", index_of(R"({"a":""})"), {"empty part"}},
      {13, "no weight_map", R"({"metadata":{}})", {"/weight_map", "missing"}},
      {13,
       "weight_map twice",
       R"({"weight_map":{"a":"a.safetensors"},"weight_map":{}})",
       {"\"weight_map\" twice"}},
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
