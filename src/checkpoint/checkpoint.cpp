#include "checkpoint/checkpoint.hpp"

#include <algorithm>
#include <iterator>

#include "base/text.hpp"
#include "checkpoint/readers.hpp"

namespace attnctl::checkpoint {
namespace {

using namespace std::string_view_literals;

using Path = std::filesystem::path;

/// A file format. To support a new format, write a function that opens it and add a row to kFormats.
struct FileFormat {
  std::string_view extension;  // lower case
  std::string_view name;
  bool (*plausible)(std::string_view content);  // returns false if the first bytes rule out this format
  void (*read)(const MappedFile& file, Checkpoint& checkpoint, Warnings& warnings);
};

bool begins_like_json(std::string_view content) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (content[first] == '{' || content[first] == '[');
}

bool begins_like_safetensors(std::string_view content) {
  return content.size() >= 8 && little_endian(content.substr(0, 8)) <= content.size() - 8 &&
         begins_like_json(content.substr(8, 4096));
}

bool begins_like_torch(std::string_view content) {
  return content.starts_with("PK") || content.starts_with('\x80');
}

constexpr FileFormat kFormats[] = {
    {".safetensors.index.json", "an index of safetensors shards", begins_like_json, read_shard_index},
    {".bin.index.json", "an index of PyTorch shards", begins_like_json, read_shard_index},
    {".safetensors", "safetensors", begins_like_safetensors, read_safetensors},
    {".npz", "an NPZ archive", [](std::string_view content) { return content.starts_with("PK"); }, read_npz},
    {".npy", "an NPY array", [](std::string_view content) { return content.starts_with("\x93NUMPY"); },
     read_npy},
    {".bin", "a PyTorch checkpoint", begins_like_torch, read_torch_file},
    {".pt", "a PyTorch checkpoint", begins_like_torch, read_torch_file},
    {".pth", "a PyTorch checkpoint", begins_like_torch, read_torch_file},
    {".gguf", "GGUF", [](std::string_view content) { return content.starts_with("GGUF"); }, read_gguf},
    {".json", "JSON weights", begins_like_json, read_json_weights},
};

/// Extensions of unsupported weights files. The error message advises to convert them.
constexpr std::string_view kForeign[] = {".ckpt", ".pkl",     ".pickle", ".h5",
                                         ".onnx", ".msgpack", ".tflite", ".mlmodel"};

const FileFormat* find_format(const Path& path) {
  const std::string name = lower_case(path.filename().string());
  const auto* const format =
      std::ranges::find_if(kFormats, [&](const FileFormat& f) { return name.ends_with(f.extension); });
  return format != std::end(kFormats) ? format : nullptr;
}

/// A type of files, for error messages about a file whose format is not the expected one.
struct ContentType {
  std::string_view bytes;   // first bytes of such files
  std::string_view name;    // such as "a PNG image"
  std::string_view advice;  // what the user can do
};

constexpr std::string_view kConvertWeights = "convert it to safetensors";
constexpr std::string_view kRename = "give it the extension of its type";
constexpr std::string_view kNameWeights = "give the path of a weights file";

constexpr ContentType kSignatures[] = {
    {"version https://git-lfs"sv, "a Git LFS pointer, not the file itself", "fetch it with git lfs pull"},
    {"\x89PNG\r\n\x1a\n"sv, "a PNG image", kNameWeights},
    {"\xFF\xD8\xFF"sv, "a JPEG image", kNameWeights},
    {"GIF8"sv, "a GIF image", kNameWeights},
    {"%PDF-"sv, "a PDF document", kNameWeights},
    {"GGUF"sv, "a GGUF model", kRename},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file", kConvertWeights},
    {"\x93NUMPY"sv, "an NPY array", kRename},
    {"PK\x03\x04"sv, "a ZIP archive (NPZ, or a PyTorch checkpoint)", kRename},
    {"\x1F\x8B"sv, "a gzip archive", "unpack it"},
    {"(\xB5/\xFD"sv, "a zstd archive", "unpack it"},
    {"\xFD\x37zXZ\0"sv, "an xz archive", "unpack it"},
    {"\x80\x02"sv, "a Python pickle, which is never executed", kConvertWeights},
    {"\x80\x04"sv, "a Python pickle, which is never executed", kConvertWeights},
};

std::optional<ContentType> identify_content(std::string_view content) {
  for (const ContentType& type : kSignatures) {
    if (content.starts_with(type.bytes)) return type;
  }
  std::string text = lower_case(content.substr(0, 512));
  text.erase(0, text.find_first_not_of(" \t\r\n"));
  if (text.starts_with("<!doctype html") || text.starts_with("<html"))
    return ContentType{{}, "an HTML page", "download the file itself, not the page that shows it"};
  if (text.starts_with("<?xml") || text.starts_with("<svg"))
    return ContentType{{}, "an XML document", kNameWeights};
  if (text.starts_with("{") || text.starts_with("[")) return ContentType{{}, "JSON text", kRename};
  return std::nullopt;
}

void check_plausible(const FileFormat& format, const MappedFile& file) {
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

void read_weights(const Path& path, Status absent, Checkpoint& checkpoint, Warnings& warnings) {
  const MappedFile& file = checkpoint.map(path, absent);
  const FileFormat* const format = find_format(path);
  if (format == nullptr) {
    const std::string name = lower_case(path.filename().string());
    if (std::ranges::any_of(kForeign, [&](std::string_view extension) { return name.ends_with(extension); }))
      refuse(file.name(), "unsupported weights format; convert it to safetensors");
    refuse(file.name(), "unsupported extension, need one of {}",
           join_texts(kFormats, &FileFormat::extension, " "));
  }
  check_plausible(*format, file);
  format->read(file, checkpoint, warnings);
}

std::unique_ptr<Checkpoint> open_checkpoint(const Path& path, Warnings& warnings, Status absent) {
  auto checkpoint = std::make_unique<Checkpoint>();
  read_weights(path, absent, *checkpoint, warnings);
  checkpoint->sort();
  combine_scales(*checkpoint);
  return checkpoint;
}

std::shared_ptr<const formats::TokenizerSection> read_tokenizer_section(const Path& path) {
  const FileFormat* const format = find_format(path);
  if (format == nullptr || format->extension != ".gguf") return nullptr;
  const MappedFile file(path);
  check_plausible(*format, file);
  return read_gguf_tokenizer(file);
}

}  // namespace attnctl::checkpoint
