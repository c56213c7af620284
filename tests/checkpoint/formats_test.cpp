#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "checkpoint/checkpoint.hpp"
#include "support/refusal.hpp"

using namespace attnctl;
using namespace attnctl::test;

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

TEST_CASE("NPY versions 1 to 3 are read; the tensor is named after the file") {
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

TEST_CASE("unsupported arrays of the libraries are rejected with their type") {
  struct Row {
    int kind;
    const char* file;
    std::vector<std::string_view> parts;
  };
  for (const Row& row :
       {Row{22, "fp8.safetensors", {"/w/dtype", "unsupported", "F8_E4M3"}},
        Row{72, "object.npz", {"member \"w.npy\"", "unsupported", "\"|O\"", "never unpickled"}}}) {
    CAPTURE(row.kind);
    Warnings warnings;
    check_refusal([&] { (void)open_checkpoint(kFormats / row.file, warnings); }, Status::bad_input,
                  row.parts);
  }
}
