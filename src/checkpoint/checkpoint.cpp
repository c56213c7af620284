#include "checkpoint/checkpoint.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "base/files/mapped_file.hpp"
#include "checkpoint/readers.hpp"

namespace attnctl {
namespace {

using namespace std::string_view_literals;

/// What the function that opens a file receives in addition to the file's bytes.
struct OpenContext {
  const std::filesystem::path& path;
  Warnings& warnings;
};

/// A file format. To support a new format, write a function that opens it and add a row to kFormats.
struct FileFormat {
  std::string_view extension;  // lower case
  std::string_view name;
  bool (*plausible)(std::string_view content);  // returns false if the first bytes rule out this format
  std::unique_ptr<Checkpoint> (*open)(FileBytes file, const OpenContext& context);
  /// Reads the tokenizer inside a file; null if files of this format contain no tokenizer.
  std::shared_ptr<const TokenizerSection> (*tokenizer)(const FileBytes& file) = nullptr;
};

std::unique_ptr<Checkpoint> open_torch(FileBytes file, const OpenContext& context) {
  return open_torch_file(std::move(file), context.warnings);
}

bool begins_like_json(std::string_view content) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (content[first] == '{' || content[first] == '[');
}

bool begins_like_safetensors(std::string_view content) {
  std::uint64_t length = 0;
  if (content.size() < sizeof length) return false;
  std::memcpy(&length, content.data(), sizeof length);
  return length <= content.size() - sizeof length && begins_like_json(content.substr(sizeof length, 4096));
}

bool begins_like_torch(std::string_view content) {
  return content.starts_with("PK") || content.starts_with('\x80');
}

constexpr FileFormat kFormats[] = {
    {".safetensors.index.json", "an index of safetensors shards", begins_like_json,
     [](FileBytes file, const OpenContext& context) {
       return open_shard_index(std::move(file), context.path.parent_path(), ".safetensors", context.warnings);
     }},
    {".bin.index.json", "an index of PyTorch shards", begins_like_json,
     [](FileBytes file, const OpenContext& context) {
       return open_shard_index(std::move(file), context.path.parent_path(), ".bin", context.warnings);
     }},
    {".safetensors", "safetensors", begins_like_safetensors,
     [](FileBytes file, const OpenContext&) { return open_safetensors(std::move(file)); }},
    {".npz", "an NPZ archive", [](std::string_view content) { return content.starts_with("PK"); },
     [](FileBytes file, const OpenContext& context) { return open_npz(std::move(file), context.warnings); }},
    {".npy", "an NPY array", [](std::string_view content) { return content.starts_with("\x93NUMPY"); },
     [](FileBytes file, const OpenContext& context) {
       return open_npy(std::move(file), context.path.stem().string());
     }},
    {".bin", "a PyTorch checkpoint", begins_like_torch, open_torch},
    {".pt", "a PyTorch checkpoint", begins_like_torch, open_torch},
    {".pth", "a PyTorch checkpoint", begins_like_torch, open_torch},
    {".gguf", "GGUF", [](std::string_view content) { return content.starts_with("GGUF"); },
     [](FileBytes file, const OpenContext&) { return open_gguf(std::move(file)); }, read_gguf_tokenizer},
    {".json", "JSON weights", begins_like_json,
     [](FileBytes file, const OpenContext&) { return open_json_weights(std::move(file)); }},
};

/// Extensions of unsupported weights files. The error message advises to convert them.
constexpr std::string_view kForeign[] = {".ckpt", ".pkl",     ".pickle", ".h5",
                                         ".onnx", ".msgpack", ".tflite", ".mlmodel"};

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

/// Returns the format with the extension of a path; null if the extension is unknown.
const FileFormat* find_format(const std::filesystem::path& path) {
  const std::string name = lower_case(path.filename().string());
  const auto* const format =
      std::ranges::find_if(kFormats, [&](const FileFormat& f) { return name.ends_with(f.extension); });
  return format != std::end(kFormats) ? format : nullptr;
}

const FileFormat& format_of(const std::filesystem::path& path) {
  if (const FileFormat* const format = find_format(path)) return *format;
  const std::string name = lower_case(path.filename().string());
  const bool foreign =
      std::ranges::any_of(kForeign, [&](std::string_view extension) { return name.ends_with(extension); });
  if (foreign) refuse(escaped(path.string()), "unsupported weights format; convert it to safetensors");
  std::string known;
  for (const FileFormat& f : kFormats) known += fmt::format(" {}", f.extension);
  refuse(escaped(path.string()), "unsupported extension, need one of{}", known);
}

/// The type of a file whose format is not the expected one, for error messages.
struct ContentType {
  std::string_view name;    // such as "a PNG image"
  std::string_view advice;  // what the user can do
};

struct ContentSignature {
  std::string_view bytes;
  ContentType type;
};

constexpr std::string_view kConvertWeights = "convert it to safetensors";
constexpr std::string_view kRename = "give it the extension of its type";
constexpr std::string_view kNameWeights = "name a weights file";

constexpr ContentSignature kSignatures[] = {
    {"version https://git-lfs"sv, {"a Git LFS pointer, not the file itself", "fetch it with git lfs pull"}},
    {"\x89PNG\r\n\x1a\n"sv, {"a PNG image", kNameWeights}},
    {"\xFF\xD8\xFF"sv, {"a JPEG image", kNameWeights}},
    {"GIF8"sv, {"a GIF image", kNameWeights}},
    {"%PDF-"sv, {"a PDF document", kNameWeights}},
    {"GGUF"sv, {"a GGUF model", kRename}},
    {"\x89HDF\r\n\x1a\n"sv, {"an HDF5 file", kConvertWeights}},
    {"\x93NUMPY"sv, {"an NPY array", kRename}},
    {"PK\x03\x04"sv, {"a ZIP archive (NPZ, or a PyTorch checkpoint)", kRename}},
    {"\x1F\x8B"sv, {"a gzip archive", "unpack it"}},
    {"(\xB5/\xFD"sv, {"a zstd archive", "unpack it"}},
    {"\xFD"
     "7zXZ\0"sv,
     {"an xz archive", "unpack it"}},
    {"\x80\x02"sv, {"a Python pickle, which is never executed", kConvertWeights}},
    {"\x80\x04"sv, {"a Python pickle, which is never executed", kConvertWeights}},
};

bool starts_with_word(std::string_view text, std::string_view lower_case_word) {
  return text.size() >= lower_case_word.size() &&
         std::equal(lower_case_word.begin(), lower_case_word.end(), text.begin(), [](char want, char got) {
           return want == got || (got >= 'A' && got <= 'Z' && want == got + 32);
         });
}

/// Identifies the type of a file by its first bytes; returns nullopt if the type is unknown.
std::optional<ContentType> identify_content(std::string_view content) {
  for (const ContentSignature& signature : kSignatures) {
    if (content.starts_with(signature.bytes)) return signature.type;
  }
  std::string_view text = content.substr(0, 512);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (starts_with_word(text, "<!doctype html") || starts_with_word(text, "<html"))
    return ContentType{"an HTML page", "download the file itself, not the page that shows it"};
  if (starts_with_word(text, "<?xml") || starts_with_word(text, "<svg"))
    return ContentType{"an XML document", kNameWeights};
  if (text.starts_with('{') || text.starts_with('[')) return ContentType{"JSON text", kRename};
  return std::nullopt;
}

/// Throws Error(bad_input) if the first bytes of the file belong to a known type other than `format`.
void check_plausible(const FileFormat& format, const FileBytes& file) {
  if (format.plausible(file.text())) return;
  if (const auto found = identify_content(file.text()))
    refuse(file.name(), "got {}, need {}; {}", found->name, format.name, found->advice);
}

}  // namespace

std::size_t Checkpoint::find(std::string_view name) const {
  const auto all = tensors();
  const auto found = std::ranges::lower_bound(all, name, {}, &TensorInfo::name);
  return found != all.end() && found->name == name ? static_cast<std::size_t>(found - all.begin()) : npos;
}

std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& path, Warnings& warnings,
                                            Status absent) {
  FileBytes file(path, absent);
  const FileFormat& format = format_of(path);
  check_plausible(format, file);
  return format.open(std::move(file), {path, warnings});
}

std::shared_ptr<const TokenizerSection> read_tokenizer_section(const std::filesystem::path& path) {
  const FileFormat* const format = find_format(path);
  if (format == nullptr || format->tokenizer == nullptr) return nullptr;
  const FileBytes file(path, Status::environment);
  check_plausible(*format, file);
  return format->tokenizer(file);
}

}  // namespace attnctl
