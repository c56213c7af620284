#include "checkpoint/checkpoint.hpp"

#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "base/files/mapped_file.hpp"
#include "support/bytes.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;
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
       {Row{"gone.safetensors", "No such file"}, Row{"d.safetensors", "got a directory"},
        Row{"f\x1b.safetensors", "f\\x1b.safetensors: got a FIFO"}, Row{"z.safetensors", "got a device"}}) {
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
  check_refusal([] { check_mapped_files(); }, Status::bad_input, {"m.safetensors", "got 100 bytes"});
}
