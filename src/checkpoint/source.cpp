#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/readers.hpp"
#include "formats/json.hpp"

namespace attnctl::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxConfigBytes = std::size_t{4} << 20;
/// Files of a model directory that users give as MODEL, although they are not weights.
constexpr std::string_view kNotWeights[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                            "vocab.json",  "vocab.txt",      "merges.txt"};
constexpr std::string_view kWeightsNames =
    "model.safetensors, model.safetensors.index.json, model.npz, model.json, pytorch_model.bin, "
    "pytorch_model.bin.index.json, or one .safetensors, .npz or .gguf file";

std::string escaped_path(const fs::path& path) {
  return escaped(path.string());
}

/// Returns whether a path exists. A broken link counts as existing, so that opening the link reports the
/// error. Throws Error(environment) if this cannot be found out, for example after a disk error.
bool path_exists(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path, error).type();
  if (type == fs::file_type::none) fail_with_errno(escaped_path(path), "open", error.value());
  return type != fs::file_type::not_found;
}

void read_config(const fs::path& path, Status absent, ModelSource& source) {
  source.config_path = path;
  source.config_text = read_file(path, kMaxConfigBytes, absent);
  source.config = formats::parse_json(path.string(), source.config_text);
  if (!source.config.is_object())
    refuse(escaped_path(path), "got JSON that is not an object, need an object of settings");
}

bool has_extension(std::string_view name, std::initializer_list<std::string_view> extensions) {
  return std::ranges::any_of(extensions, [&](std::string_view end) { return name.ends_with(end); });
}

fs::path weights_in(const fs::path& directory) {
  const auto first_of = [&](std::initializer_list<const char*> names) -> std::optional<fs::path> {
    const auto* const name =
        std::ranges::find_if(names, [&](const char* each) { return path_exists(directory / each); });
    return name != names.end() ? std::optional(directory / *name) : std::nullopt;
  };
  if (const auto usual =
          first_of({"model.safetensors", "model.safetensors.index.json", "model.npz", "model.json"})) {
    return *usual;
  }
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) fail(Status::environment, "{}: cannot list: {}", escaped_path(directory), error.message());
  std::ranges::sort(names);
  std::vector<std::string> readable;
  std::vector<std::string> foreign;
  for (const std::string& name : names) {
    if (has_extension(name, {".safetensors", ".npz", ".gguf"})) readable.push_back(name);
    if (has_extension(name, {".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack"}))
      foreign.push_back(escaped(name));
  }
  if (readable.size() == 1) return directory / readable.front();
  if (readable.size() > 1) {
    refuse(escaped_path(directory),
           "got {} weights files ({}), need model.safetensors or only one; give the path of one file instead",
           readable.size(), escaped(fmt::format("{}", fmt::join(readable, ", "))));
  }
  // PyTorch files are only the last choice: a directory that also has other weights files usually has the
  // same weights in both.
  if (const auto torch = first_of({"pytorch_model.bin", "pytorch_model.bin.index.json"})) return *torch;
  if (!foreign.empty()) {
    refuse(escaped_path(directory),
           "got no weights with a usual name, only {}; give the path of a .bin, .pt or .pth file, or "
           "convert the weights to safetensors",
           fmt::join(foreign, ", "));
  }
  refuse(escaped_path(directory), "no weights, need {}", kWeightsNames);
}

void open_weights_file(const fs::path& file, const std::optional<fs::path>& config, Warnings& warnings,
                       ModelSource& source) {
  std::error_code error;
  const bool not_weights = std::ranges::find(kNotWeights, file.filename().native()) != std::end(kNotWeights);
  if (not_weights && fs::is_regular_file(file, error)) {
    refuse(escaped_path(file), "is not a weights file; give the directory of the model: {}",
           escaped_path(model_directory(file.string())));
  }
  source.weights = open_checkpoint(file, warnings);
  const fs::path sibling = file.parent_path() / "config.json";
  if (config) {
    read_config(*config, Status::environment, source);
  } else if (source.weights->config) {
    source.config_path = file;
    source.config = *source.weights->config;
    source.config_text = source.config.dump();
  } else if (path_exists(sibling)) {
    read_config(sibling, Status::bad_input, source);
    source.directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  } else {
    refuse(escaped_path(file),
           "no configuration in the file and no config.json next to it; give --config FILE");
  }
}

constexpr std::size_t kMaxReferenceBytes = 256;

bool is_plain_name(std::string_view name) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
  return !name.empty() && name.front() != '.' && name.find_first_not_of(kAllowed) == std::string_view::npos;
}

fs::path hub_cache() {
  constexpr std::pair<const char*, const char*> kPlaces[] = {{"HF_HUB_CACHE", ""},
                                                             {"HF_HOME", "hub"},
                                                             {"XDG_CACHE_HOME", "huggingface/hub"},
                                                             {"HOME", ".cache/huggingface/hub"}};
  for (const auto& [variable, below] : kPlaces) {
    const char* const value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return *below == '\0' ? fs::path(value) : fs::path(value) / below;
  }
  return {};
}

/// The file with the name of the snapshot of a revision, which is "main" without "@REVISION".
fs::path revision_file(const fs::path& model, const std::string& name) {
  const std::size_t at = name.find('@');
  return model / "refs" / (at == std::string::npos ? "main" : name.substr(at + 1));
}

fs::path cached_model(const std::string& name) {
  const std::size_t at = name.find('@');
  const auto parts = split(std::string_view(name).substr(0, at), '/');
  // The names of the Hugging Face hub have the form "org/name" or "name".
  if (parts.size() > 2 || !std::ranges::all_of(parts, is_plain_name) ||
      (at != std::string::npos && !is_plain_name(std::string_view(name).substr(at + 1))))
    fail(Status::environment, "{}: cannot open: No such file or directory", escaped(name));
  const fs::path cache = hub_cache();
  const fs::path model = cache / fmt::format("models--{}", fmt::join(parts, "--"));
  std::error_code ignored;
  if (cache.empty() || !fs::is_directory(model, ignored)) {
    fail(Status::environment,
         "{}: no such file, and no such model in the local Hugging Face cache {} (set HF_HUB_CACHE or "
         "HF_HOME); nothing is downloaded",
         name, cache.empty() ? "which is not set" : escaped_path(cache));
  }
  const fs::path reference = revision_file(model, name);
  fs::path named = model / "snapshots" / reference.filename();
  if (at != std::string::npos && fs::is_directory(named, ignored)) return named;  // NAME@COMMIT
  if (at != std::string::npos && !path_exists(reference))
    fail(Status::environment, "{}: the cache has no revision {}; download it first", escaped(name),
         reference.filename().native());
  std::string commit = read_file(reference, kMaxReferenceBytes, Status::bad_input);
  commit.resize(std::min(commit.find_first_of("\r\n"), commit.size()));
  if (!is_plain_name(commit))
    refuse(escaped_path(reference), "got {}, need the name of a snapshot", in_quotes(commit));
  fs::path snapshot = model / "snapshots" / commit;
  if (!fs::is_directory(snapshot, ignored))
    refuse(escaped_path(snapshot), "the snapshot that refs/{} names is missing; download the model again",
           reference.filename().native());
  return snapshot;
}

/// Returns `model` if this path is a directory, and nullopt if the path exists but is not a directory. If the
/// path does not exist, returns the directory of the model in the local Hugging Face cache.
std::optional<fs::path> find_directory(const std::string& model) {
  std::error_code error;
  const fs::file_status status = fs::status(model, error);
  if (status.type() == fs::file_type::none) fail_with_errno(escaped(model), "open", error.value());
  if (status.type() == fs::file_type::not_found && !path_exists(model)) return cached_model(model);
  return fs::is_directory(status) ? std::optional<fs::path>(model) : std::nullopt;
}

}  // namespace

ModelSource open_model_source(const std::string& model, const std::optional<fs::path>& config,
                              Warnings& warnings) {
  ModelSource source;
  source.given = model;
  if (const auto directory = find_directory(model)) {
    source.directory = *directory;
    const fs::path inside = *directory / "config.json";
    if (!config && !path_exists(inside)) {
      refuse(
          escaped_path(*directory),
          "no config.json; need a directory with config.json and weights ({}), or the path of a .gguf file",
          kWeightsNames);
    }
    read_config(config.value_or(inside), config ? Status::environment : Status::bad_input, source);
    source.weights = open_checkpoint(weights_in(*directory), warnings, Status::bad_input);
  } else {
    open_weights_file(model, config, warnings, source);
  }
  return source;
}

fs::path model_directory(const std::string& model) {
  if (const auto directory = find_directory(model)) return *directory;
  std::error_code error;
  if (!fs::exists(fs::status(model, error)))
    fail(Status::environment, "{}: cannot open: {}", escaped(model), error.message());
  const fs::path parent = fs::path(model).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

std::vector<fs::path> checkpoint_files(const std::string& model) {
  const fs::path directory = model_directory(model);
  std::error_code error;
  const bool one_file = fs::is_regular_file(model, error);
  fs::path weights = model;
  if (!one_file) {
    try {
      weights = weights_in(directory);
    } catch (const Error&) {
      weights.clear();  // opening the weights reports this error
    }
  }
  std::vector<fs::path> files = {directory / "config.json", weights};
  if (!fs::exists(model, error))
    files.push_back(revision_file(directory / "../..", model));  // it selects the snapshot in the cache
  const bool sharded = weights.native().ends_with(".index.json");
  if (one_file && !sharded) return files;
  fs::recursive_directory_iterator entry(directory, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (!sharded) entry.disable_recursion_pending();
    if (has_extension(entry->path().native(),
                      {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".index.json"}))
      files.push_back(entry->path());
  }
  return files;
}

}  // namespace attnctl::checkpoint
