#include "checkpoint/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "base/files/mapped_file.hpp"
#include "checkpoint/gguf/gguf.hpp"
#include "checkpoint/json_weights.hpp"
#include "checkpoint/numpy/npy.hpp"
#include "checkpoint/safetensors/safetensors.hpp"
#include "checkpoint/sniff.hpp"
#include "checkpoint/torch/torch_file.hpp"

namespace attnctl {
namespace {

struct Opening {
  const std::filesystem::path& path;
  Warnings& warnings;
};

/// A format is a row: a new one is a reader and an entry in kFormats.
struct Format {
  std::string_view extension;  // lower case
  std::string_view name;
  bool (*plausible)(std::string_view content);  // by the first bytes alone
  std::unique_ptr<Checkpoint> (*open)(FileBytes file, const Opening& opening);
  std::shared_ptr<const TokenizerSection> (*tokenizer)(const FileBytes& file) = nullptr;  // inside of it
};

std::unique_ptr<Checkpoint> open_torch(FileBytes file, const Opening& opening) {
  return open_torch_file(std::move(file), opening.warnings);
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

bool begins_like_zip(std::string_view content) {
  return content.starts_with("PK");
}
bool begins_like_torch(std::string_view content) {
  return content.starts_with("PK") || content.starts_with('\x80');
}
bool begins_like_npy(std::string_view content) {
  return content.starts_with("\x93NUMPY");
}

bool begins_like_gguf(std::string_view content) {
  return content.starts_with("GGUF");
}

constexpr std::array kFormats = {
    Format{".safetensors.index.json", "an index of safetensors shards", begins_like_json,
           [](FileBytes file, const Opening& opening) {
             return open_shard_index(std::move(file), opening.path.parent_path(), ".safetensors",
                                     opening.warnings);
           }},
    Format{".bin.index.json", "an index of PyTorch shards", begins_like_json,
           [](FileBytes file, const Opening& opening) {
             return open_shard_index(std::move(file), opening.path.parent_path(), ".bin", opening.warnings);
           }},
    Format{".safetensors", "safetensors", begins_like_safetensors,
           [](FileBytes file, const Opening&) { return open_safetensors(std::move(file)); }},
    Format{
        ".npz", "an NPZ archive", begins_like_zip,
        [](FileBytes file, const Opening& opening) { return open_npz(std::move(file), opening.warnings); }},
    Format{".npy", "an NPY array", begins_like_npy,
           [](FileBytes file, const Opening& opening) {
             return open_npy(std::move(file), opening.path.stem().string());
           }},
    Format{".bin", "a PyTorch checkpoint", begins_like_torch, open_torch},
    Format{".pt", "a PyTorch checkpoint", begins_like_torch, open_torch},
    Format{".pth", "a PyTorch checkpoint", begins_like_torch, open_torch},
    Format{".gguf", "GGUF", begins_like_gguf,
           [](FileBytes file, const Opening&) { return open_gguf(std::move(file)); }, read_gguf_tokenizer},
    Format{".json", "JSON weights", begins_like_json,
           [](FileBytes file, const Opening&) { return open_json_weights(std::move(file)); }},
};

/// Weights that cannot be read, with what can be done; anything else is simply not known.
constexpr std::array<std::string_view, 8> kForeign = {".ckpt", ".pkl",     ".pickle", ".h5",
                                                      ".onnx", ".msgpack", ".tflite", ".mlmodel"};

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

/// By the extension; null where none is known.
const Format* find_format(const std::filesystem::path& path) {
  const std::string name = lower_case(path.filename().string());
  const auto* const format = std::find_if(kFormats.begin(), kFormats.end(),
                                          [&](const Format& f) { return name.ends_with(f.extension); });
  return format != kFormats.end() ? format : nullptr;
}

const Format& format_of(const std::filesystem::path& path) {
  if (const Format* const format = find_format(path)) return *format;
  const std::string name = lower_case(path.filename().string());
  const bool foreign = std::any_of(kForeign.begin(), kForeign.end(),
                                   [&](std::string_view extension) { return name.ends_with(extension); });
  if (foreign) {
    fail(Status::bad_input, "{}: unsupported weights format; convert it to safetensors",
         escaped(path.string()));
  }
  std::string known;
  for (const Format& f : kFormats) known += fmt::format(" {}", f.extension);
  fail(Status::bad_input, "{}: unsupported extension, need one of{}", escaped(path.string()), known);
}

/// Refuses what is plainly something else, and says what.
void check_plausible(const Format& format, const FileBytes& file) {
  if (format.plausible(file.text())) return;
  if (const auto sniffed = sniff(file.text())) {
    fail(Status::bad_input, "{}: got {}, need {}; {}", file.name(), sniffed->what, format.name,
         sniffed->advice);
  }
}

}  // namespace

std::size_t Checkpoint::find(std::string_view name) const {
  const auto all = tensors();
  const auto found =
      std::lower_bound(all.begin(), all.end(), name,
                       [](const TensorInfo& info, std::string_view wanted) { return info.name < wanted; });
  return found != all.end() && found->name == name ? static_cast<std::size_t>(found - all.begin()) : npos;
}

std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& path, Warnings& warnings,
                                            Status absent) {
  MappedFile mapped(path, absent);
  const Format& format = format_of(path);
  FileBytes file(std::move(mapped));
  check_plausible(format, file);
  return format.open(std::move(file), {path, warnings});
}

std::shared_ptr<const TokenizerSection> read_tokenizer_section(const std::filesystem::path& path) {
  const Format* const format = find_format(path);
  if (format == nullptr || format->tokenizer == nullptr) return nullptr;
  const FileBytes file(MappedFile(path, Status::environment));
  check_plausible(*format, file);
  return format->tokenizer(file);
}

}  // namespace attnctl
