#include "checkpoint/checkpoint.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/files/input_file.hpp"
#include "support/bytes.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"
#include "support/torch_bytes.hpp"

using namespace attnctl;
using namespace attnctl::checkpoint;
using namespace attnctl::test;

TEST_CASE("content that contradicts the extension is rejected with the type it looks like") {
  const TempDir folder;
  struct Row {
    std::string_view what;
    std::string bytes;
    std::vector<std::string_view> parts;
  };
  const std::vector<Row> contents = {
      {"PNG", "\x89PNG\r\n\x1a\n0000000000", {"PNG image"}},
      {"JPEG", "\xFF\xD8\xFF\xE0 0000000000", {"JPEG image"}},
      {"LFS pointer",
       "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
       {"Git LFS pointer", "git lfs pull"}},
      {"HTML", "\n <!DOCTYPE HTML><html><body>Not Found</body></html>", {"HTML page", "download"}},
      {"XML", "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", {"XML document"}},
      {"GGUF",
       std::string("GGUF\x03\0\0\0", 8) + "0000000000000000",
       {"GGUF model", "give it the extension"}},
      {"pickle", std::string("\x80\x02}q\0.", 6) + "0000000000", {"Python pickle", "never executed"}},
      {"gzip", "\x1f\x8b\x08\x04 0000000000000", {"gzip archive", "unpack"}},
      {"HDF5", "\x89HDF\r\n\x1a\n0000000000", {"HDF5", "convert"}},
  };
  for (const Row& row : contents) {
    for (const char* name :
         {"model.safetensors", "model.npz", "model.npy", "model.json", "model.safetensors.index.json"}) {
      CAPTURE(row.what);
      CAPTURE(name);
      Warnings warnings;
      const auto path = folder.write(name, row.bytes);
      auto parts = row.parts;
      parts.emplace_back(name);
      check_refusal([&] { (void)open_checkpoint(path, warnings); }, Status::bad_input, parts);
    }
  }
}

TEST_CASE("a format under the extension of another is rejected with its name") {
  const TempDir folder;
  const std::string array = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "1234");
  struct Row {
    const char* name;
    std::string bytes;
    std::string_view part;
  };
  for (const Row& row :
       {Row{"a.safetensors", array, "NPY array"},
        Row{"a.safetensors", zip({}) + zip({{.name = "a", .data = "1"}}), "safetensors"},
        Row{"a.safetensors", zip({{.name = "a.npy", .data = array}}), "ZIP archive"},
        Row{"a.npz", array, "NPY array"},
        Row{"a.npy", zip({{.name = "a.npy", .data = array}}), "ZIP archive"},
        Row{"a.npz", R"({"W_q":[1]})", "JSON text"}, Row{"a.safetensors", R"({"W_q":[1]})", "JSON text"},
        Row{"a.json", array, "NPY array"}}) {
    CAPTURE(row.name);
    CAPTURE(row.part);
    Warnings warnings;
    const auto path = folder.write(row.name, row.bytes);
    check_refusal([&] { (void)open_checkpoint(path, warnings); }, Status::bad_input, {row.name, row.part});
  }
}

TEST_CASE("errors of unsupported formats say what to do") {
  const TempDir folder;
  Warnings warnings;
  for (const char* name : {"model.ckpt", "model.PKL", "tf_model.h5"}) {
    CAPTURE(name);
    const auto path = folder.write(name, "PK\x03\x04 0000");
    check_refusal([&] { (void)open_checkpoint(path, warnings); }, Status::bad_input,
                  {name, "unsupported", "convert it to safetensors"});
  }
  for (const char* name : {"model", "model.txt", "model.safetensors.bak", "npz"}) {
    CAPTURE(name);
    const auto path = folder.write(name, "x");
    check_refusal([&] { (void)open_checkpoint(path, warnings); }, Status::bad_input,
                  {name, "unsupported extension", ".safetensors", ".npz"});
  }
  const auto upper = folder.write("MODEL.SAFETENSORS", safetensors("{}", ""));
  CHECK_NOTHROW((void)open_checkpoint(upper, warnings));
}

TEST_CASE("a path that is not a regular file fails with the status of the caller") {
  const TempDir folder;
  Warnings warnings;
  std::filesystem::create_directory(folder.path() / "d.safetensors");
  mkfifo((folder.path() / "f\x1b.safetensors").c_str(), 0600);
  std::filesystem::create_symlink("/dev/zero", folder.path() / "z.safetensors");
  struct Row {
    const char* name;
    std::string_view part;
  };
  for (const Row& row :
       {Row{"gone.safetensors", "No such file"}, Row{"d.safetensors", "is a directory"},
        Row{"f\x1b.safetensors", "f\\x1b.safetensors: is a FIFO"}, Row{"z.safetensors", "is a device"}}) {
    CAPTURE(row.part);
    const auto open = [&](Status absent) {
      (void)open_checkpoint(folder.path() / row.name, warnings, absent);
    };
    check_refusal([&] { open(Status::environment); }, Status::environment, {row.part});
    check_refusal([&] { open(Status::bad_input); }, Status::bad_input, {row.part});
  }
}

TEST_CASE("kind 135: a checkpoint that is cut while open gives an error instead of SIGBUS") {
  const TempDir folder;
  Warnings warnings;
  const std::string header = R"({"w":{"dtype":"U8","shape":[1000000],"data_offsets":[0,1000000]}})";
  const auto path = folder.write("m.safetensors", safetensors(header, std::string(1'000'000, 'x')));
  const auto checkpoint = open_checkpoint(path, warnings);
  CHECK_NOTHROW(check_mapped_files());
  REQUIRE(truncate(path.c_str(), 100) == 0);
  std::vector<float> values(1'000'000);
  convert(DType::u8, checkpoint->tensor(0).bytes, std::span(values));
  CHECK(values.back() == 0);
  check_refusal([] { check_mapped_files(); }, Status::bad_input,
                {"m.safetensors", "changed while it was read"});
}

namespace {

const std::filesystem::path kFormats = std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden/formats";

/// Element i of every array of tests/golden/make_formats.py.
double golden_value(DType dtype, std::size_t i) {
  const double value = (static_cast<double>(7 * i % 23) - 11) / 4;
  if (is_floating(dtype)) return value;
  if (dtype == DType::boolean) return value != 0 ? 1 : 0;
  const bool has_sign =
      dtype == DType::i64 || dtype == DType::i32 || dtype == DType::i16 || dtype == DType::i8;
  return std::trunc(has_sign ? value : std::abs(value));
}

std::size_t count_of(const TensorView& view) {
  return view.bytes.size() / size_of(view.dtype);
}

void check_array(const TensorView& view) {
  std::vector<double> wide(count_of(view));
  std::vector<float> narrow(count_of(view));
  convert(view.dtype, view.bytes, std::span(wide));
  convert(view.dtype, view.bytes, std::span(narrow));
  for (std::size_t i = 0; i < wide.size(); ++i) {
    CAPTURE(i);
    REQUIRE(wide[i] == golden_value(view.dtype, i));
    REQUIRE(narrow[i] == static_cast<float>(wide[i]));
  }
}

/// "i16-big" of "i16", in any order that NumPy writes.
DType dtype_of(const std::string& name) {
  const std::string base = name.substr(0, name.find('-'));
  if (base == "bool") return DType::boolean;
  if (base == "vector") return DType::f64;
  for (int d = 0; d <= static_cast<int>(DType::boolean); ++d) {
    std::string lower(name_of(static_cast<DType>(d)));
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (lower == base) return static_cast<DType>(d);
  }
  FAIL("no dtype " << base);
  return DType::f32;
}

}  // namespace

TEST_CASE("arrays written by the formats' own libraries are read in every type and order") {
  struct Row {
    const char* file;
    std::size_t count;
  };
  for (const Row& row : {Row{"torch.safetensors", 13}, Row{"numpy.safetensors", 14}, Row{"stored.npz", 51},
                         Row{"deflated.npz", 51}}) {
    CAPTURE(row.file);
    Warnings warnings;
    const auto checkpoint = open_checkpoint(kFormats / row.file, warnings);
    CHECK(checkpoint->tensors().size() == row.count);
    for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i) {
      const TensorInfo& info = checkpoint->tensors()[i];
      CAPTURE(info.name);
      CHECK(checkpoint->find(info.name) == i);
      const TensorView view = checkpoint->tensor(i);
      CHECK(view.shape == info.shape);
      if (info.name == "scalar") {
        CHECK(view.shape.empty());
        CHECK(count_of(view) == 1);
      } else if (info.name == "empty") {
        CHECK(view.shape == Shape{0, 4});
      } else {
        CHECK(view.dtype == dtype_of(info.name));
        CHECK(count_of(view) == 30);
        check_array(view);
        checkpoint->release(i);
        check_array(checkpoint->tensor(i));
      }
    }
    CHECK(warnings.list().empty());
  }
}

TEST_CASE("NPY versions 1 to 3 are read, the tensor is named after the file") {
  for (const std::string name : {"version1", "version2", "version3"}) {
    CAPTURE(name);
    Warnings warnings;
    const auto checkpoint = open_checkpoint(kFormats / (name + ".npy"), warnings);
    REQUIRE(checkpoint->tensors().size() == 1);
    CHECK(checkpoint->tensors()[0].name == name);
    CHECK(checkpoint->tensor(0).shape == Shape{3, 5, 2});
    check_array(checkpoint->tensor(0));
  }
}

TEST_CASE("a single array in another order of bytes or axes is read as a row-major one") {
  const TempDir folder;
  struct Row {
    const char* dictionary;
    std::string data;
  };
  for (const Row& row :
       {Row{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", bytes_of<float>({1, 2, 3, 4})},
        Row{"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", bytes_of<float>({1, 3, 2, 4})},
        Row{"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 2), }",
            {"\x3f\x80\0\0\x40\0\0\0\x40\x40\0\0\x40\x80\0\0", 16}}}) {
    CAPTURE(row.dictionary);
    Warnings warnings;
    const auto checkpoint = open_checkpoint(folder.write("a.npy", npy(row.dictionary, row.data)), warnings);
    for (int time = 0; time < 2; ++time) {
      std::vector<float> values(4);
      convert(DType::f32, checkpoint->tensor(0).bytes, std::span(values));
      CHECK(values == std::vector<float>{1, 2, 3, 4});
      checkpoint->release(0);
    }
  }
}

namespace {

/// Compares bits, but any NaN equals any other.
bool same_numbers(const TensorView& a, const TensorView& b) {
  std::vector<float> x(a.bytes.size() / size_of(a.dtype)), y(b.bytes.size() / size_of(b.dtype));
  convert(a.dtype, a.bytes, std::span(x));
  convert(b.dtype, b.bytes, std::span(y));
  return std::ranges::equal(x, y, [](float p, float q) {
    return (std::isnan(p) && std::isnan(q)) ||
           std::bit_cast<std::uint32_t>(p) == std::bit_cast<std::uint32_t>(q);
  });
}

std::string mxfp4_file(const std::string& blocks_shape, const std::string& scales_shape, std::size_t blocks,
                       std::size_t scales) {
  const std::string header =
      fmt::format(R"({{"x_blocks": {{"dtype": "U8", "shape": {}, "data_offsets": [0, {}]}}, )"
                  R"("x_scales": {{"dtype": "U8", "shape": {}, "data_offsets": [{}, {}]}}}})",
                  blocks_shape, blocks, scales_shape, blocks, blocks + scales);
  std::string data(blocks + scales, '\x7f');  // the scale 2^0
  for (std::size_t i = 0; i < blocks; ++i) data[i] = static_cast<char>(i);
  return safetensors(header, data);
}

}  // namespace

TEST_CASE("FP8 tensors have the values that PyTorch computes with their scales") {
  Warnings warnings;
  const auto got = open_checkpoint(kFormats / "fp8.safetensors", warnings);
  const auto want = open_checkpoint(kFormats / "fp8.npz", warnings);
  CHECK(got->tensors().size() == want->tensors().size());
  CHECK(want->tensors().size() == 5);
  for (std::size_t i = 0; i < want->tensors().size(); ++i) {
    const std::string& name = want->tensors()[i].name;
    CAPTURE(name);
    const std::size_t found = got->find(name);
    REQUIRE(found != Checkpoint::npos);
    CHECK(got->tensors()[found].shape == want->tensors()[i].shape);
    for (int time = 0; time < 2; ++time) {
      CHECK(same_numbers(got->tensor(found), want->tensor(i)));
      got->release(found);
    }
  }
}

TEST_CASE("MXFP4 blocks are transposed, the lower half of a byte first") {
  const TempDir folder;
  Warnings warnings;
  const auto file = open_checkpoint(
      folder.write("a.safetensors", mxfp4_file("[1, 2, 1, 16]", "[1, 2, 1]", 32, 2)), warnings);
  REQUIRE(file->tensors().size() == 1);
  CHECK(file->tensors()[0].name == "x");
  CHECK(file->tensors()[0].shape == Shape{1, 32, 2});
  std::vector<float> values(64);
  convert(DType::f32, file->tensor(0).bytes, std::span(values));
  // Row 0 has the bytes 0 to 15, row 1 the bytes 16 to 31.
  CHECK(values[0] == 0);             // byte 0: 0x00
  CHECK(values[2 * 2] == 0.5F);      // byte 1: 0x01
  CHECK(values[3 * 2] == 0);         // its upper half
  CHECK(values[30 * 2] == -6);       // byte 15: 0x0f
  CHECK(values[1] == 0);             // byte 16: 0x10
  CHECK(values[1 * 2 + 1] == 0.5F);  // its upper half
  CHECK(values[30 * 2 + 1] == -6);   // byte 31: 0x1f
}

TEST_CASE("scales that do not fit to their tensor are refused with both shapes") {
  const TempDir folder;
  const auto check = [&](const std::string& bytes, const std::vector<std::string_view>& parts) {
    Warnings warnings;
    const auto path = folder.write("bad.safetensors", bytes);
    check_refusal([&] { (void)open_checkpoint(path, warnings); }, Status::bad_input, parts);
  };
  check(mxfp4_file("[1, 2, 1, 16]", "[1, 1, 1]", 32, 1),
        {"x_scales", "[1, 1, 1]", "x_blocks", "[1, 2, 1, 16]"});
  check(mxfp4_file("[2, 16]", "[2]", 32, 2), {"x_scales", "[2]", "[2, 16]"});
  const std::string header = R"({"w": {"dtype": "F8_E4M3", "shape": [2, 3], "data_offsets": [0, 6]}, )"
                             R"("w_scale": {"dtype": "F32", "shape": [3], "data_offsets": [6, 18]}})";
  check(safetensors(header, std::string(18, '\0')), {"w_scale", "F32 [3]", "need one scale", "[2, 3]"});
}

TEST_CASE("unsupported arrays of the libraries are rejected with their type") {
  struct Row {
    int kind;
    const char* file;
    std::vector<std::string_view> parts;
  };
  for (const Row& row :
       {Row{72, "object.npz", {"member \"w.npy\"", "unsupported", "\"|O\"", "never unpickled"}}}) {
    CAPTURE(row.kind);
    Warnings warnings;
    check_refusal([&] { (void)open_checkpoint(kFormats / row.file, warnings); }, Status::bad_input,
                  row.parts);
  }
}

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

ModelSource open(const std::filesystem::path& path, const std::optional<std::filesystem::path>& config = {}) {
  Warnings warnings;
  return open_model_source(path.string(), config, warnings);
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
    CHECK(open(path, given).config.at("heads") == 3);
    CHECK(open(path, given).config_path == given);
  }
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
  std::filesystem::create_symlink("nowhere", folder.path() / "link");
  struct Row {
    const char* model;
    Status status;
    std::vector<std::string_view> parts;
    std::optional<std::filesystem::path> config = {};
  };
  const std::vector<Row> rows = {
      {"gone", Status::environment, {"gone"}},
      {"gone/model.safetensors", Status::environment, {"gone/model.safetensors"}},
      {"empty", Status::bad_input, {"empty: no config.json", "model.safetensors", "path of a .gguf file"}},
      {"no-weights", Status::bad_input, {"no-weights", "model.safetensors"}},
      {"foreign", Status::bad_input, {"foreign", "no weights with a usual name", "tf_model.h5", "convert"}},
      {"torch", Status::bad_input, {"torch/pytorch_model.bin"}},
      {"several", Status::bad_input, {"2 weights files", "a.npz, b\\x1b.safetensors"}},
      {"bad", Status::bad_input, {"bad/config.json", "\"heads\" twice"}},
      {"list", Status::bad_input, {"list/config.json", "object"}},
      {"huge", Status::bad_input, {"huge/config.json", "more than 4194304 bytes"}},
      {"alone/model.npz", Status::bad_input, {"alone/model.npz", "--config"}},
      {"bare/model.json", Status::bad_input, {"bare/model.json", "--config"}},
      {"ok", Status::environment, {"gone.json", "No such file"}, "gone.json"},
      {"ok/model.npz", Status::environment, {"is a device"}, "/dev/zero"},
      {"link", Status::environment, {"link: cannot open: No such file"}},
      {"fifo", Status::bad_input, {"fifo/config.json", "is a FIFO"}},
      {"pipe", Status::bad_input, {"pipe/model.safetensors", "is a FIFO"}},
      {"broken", Status::bad_input, {"broken/model.safetensors"}},
      {"fifo/config.json", Status::environment, {"is a FIFO"}},
      {"ok/config.json", Status::bad_input, {"config.json: is not a weights file", "model: ", "/ok"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.model);
    check_refusal([&] { (void)open(folder.path() / row.model, row.config); }, row.status, row.parts);
  }
  check_refusal([&] { (void)model_directory((folder.path() / "link").string()); }, Status::environment,
                {"link: cannot open: No such file"});
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

TEST_CASE("NAME@REVISION selects a revision or a snapshot of the cache") {
  const TempDir folder;
  const Environment cache = only_cache("HF_HUB_CACHE", folder.path().string());
  folder.write("models--org--name/refs/main", "abc");
  folder.write("models--org--name/refs/step1000", "def");
  folder.write("models--org--name/refs/gone", "123");
  for (const char* const commit : {"abc", "def"}) {
    folder.write(fmt::format("models--org--name/snapshots/{}/config.json", commit), kConfig);
    folder.write(fmt::format("models--org--name/snapshots/{}/model.safetensors", commit), kWeights);
  }
  Warnings warnings;
  const auto snapshot = [&](const std::string& name) {
    return open_model_source(name, {}, warnings).directory.filename().string();
  };
  CHECK(snapshot("org/name") == "abc");
  CHECK(snapshot("org/name@main") == "abc");
  CHECK(snapshot("org/name@step1000") == "def");
  CHECK(snapshot("org/name@def") == "def");
  check_refusal([&] { (void)snapshot("org/name@gone"); }, Status::bad_input,
                {"the snapshot that refs/gone names is missing"});
  check_refusal([&] { (void)snapshot("org/name@step1"); }, Status::environment,
                {"the cache has no revision step1"});
  check_refusal([&] { (void)snapshot("org/name@../main"); }, Status::environment, {"cannot open"});
  check_refusal([&] { (void)snapshot("org/name@"); }, Status::environment, {"cannot open"});
}

TEST_CASE("without a cache, a name that is no path is an error that says so") {
  const Environment cache = only_cache("HOME", "");
  Warnings warnings;
  check_refusal([&] { (void)open_model_source("org/name", {}, warnings); }, Status::environment,
                {"org/name: no such file", "Hugging Face cache which is not set", "set HF_HUB_CACHE"});
}

TEST_CASE("the files of a model include those that a cache or an index selects") {
  const TempDir folder;
  const Environment cache = only_cache("HF_HUB_CACHE", folder.path().string());
  folder.write("models--name/refs/main", "abc");
  folder.write("models--name/snapshots/abc/config.json", kConfig);
  const auto has = [](const std::vector<std::filesystem::path>& files, const std::filesystem::path& wanted) {
    return std::ranges::any_of(files, [&](const auto& file) {
      return std::filesystem::exists(file) && std::filesystem::equivalent(file, wanted);
    });
  };
  const auto snapshot = folder.path() / "models--name/snapshots/abc";
  CHECK(has(checkpoint_files("name"), snapshot / "config.json"));  // though it has no weights
  folder.write("models--name/snapshots/abc/model.safetensors", kWeights);
  CHECK(has(checkpoint_files("name"), snapshot / "model.safetensors"));
  CHECK(has(checkpoint_files("name"), folder.path() / "models--name/refs/main"));
  CHECK_FALSE(has(checkpoint_files(snapshot.string()), folder.path() / "models--name/refs/main"));
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
           Row{"a snapshot without files", "empty", Status::bad_input, {"snapshots/empty: no config.json"}},
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
