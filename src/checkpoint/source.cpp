#include "checkpoint/source.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "checkpoint/hub_cache.hpp"
#include "checkpoint/source_files.hpp"
#include "formats/json.hpp"

namespace attnctl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestConfig = std::size_t{4} << 20;

std::string name_of(const fs::path& path) {
  return escaped(path.string());
}

/// Whether something is there at all; a broken link or a folder that cannot be searched is left to the
/// opening to report.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

void read_config(const fs::path& path, Status absent, ModelSource& source) {
  source.config_path = path;
  source.config_text = read_file(path, kLargestConfig, absent);
  source.config = parse_json(path.string(), source.config_text);
  if (!source.config.is_object()) {
    fail(Status::bad_input, "{}: got JSON that is no object, need an object of settings", name_of(path));
  }
}

std::vector<std::string> file_names(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) fail(Status::environment, "{}: cannot list: {}", name_of(directory), error.message());
  std::sort(names.begin(), names.end());
  return names;
}

bool has_extension(std::string_view name, std::initializer_list<std::string_view> extensions) {
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](std::string_view extension) { return name.ends_with(extension); });
}

/// The weights of a directory: by the usual names, else the only file that can be weights.
fs::path weights_in(const fs::path& directory) {
  const auto first_of = [&](std::initializer_list<const char*> names) -> std::optional<fs::path> {
    const auto* const name = std::find_if(names.begin(), names.end(),
                                          [&](const char* each) { return is_there(directory / each); });
    return name != names.end() ? std::optional(directory / *name) : std::nullopt;
  };
  if (const auto usual =
          first_of({"model.safetensors", "model.safetensors.index.json", "model.npz", "model.json"})) {
    return *usual;
  }
  std::vector<std::string> readable;
  std::vector<std::string> foreign;
  for (const std::string& name : file_names(directory)) {
    if (has_extension(name, {".safetensors", ".npz", ".gguf"})) readable.push_back(name);
    if (has_extension(name, {".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack"}))
      foreign.push_back(escaped(name));
  }
  if (readable.size() == 1) return directory / readable.front();
  if (readable.size() > 1) {
    fail(Status::bad_input,
         "{}: got {} weights files ({}), need model.safetensors or a single one; name it instead",
         name_of(directory), readable.size(), escaped(fmt::format("{}", fmt::join(readable, ", "))));
  }
  // The layout of torch comes last: the other files, where there are any, are of the same weights.
  if (const auto torch = first_of({"pytorch_model.bin", "pytorch_model.bin.index.json"})) return *torch;
  if (!foreign.empty()) {
    fail(Status::bad_input,
         "{}: unsupported weights format ({}), need model.safetensors; convert them to safetensors",
         name_of(directory), fmt::join(foreign, ", "));
  }
  fail(Status::bad_input,
       "{}: no weights, need model.safetensors, model.safetensors.index.json, model.npz, model.json or "
       "pytorch_model.bin",
       name_of(directory));
}

void open_directory(const fs::path& directory, const SourceOptions& options, Warnings& warnings,
                    ModelSource& source) {
  source.directory = directory;
  if (options.config) {
    read_config(*options.config, Status::environment, source);
  } else {
    read_config(directory / "config.json", Status::bad_input, source);
  }
  if (options.need_weights)
    source.weights = open_checkpoint(weights_in(directory), warnings, Status::bad_input);
}

void open_weights_file(const fs::path& file, const SourceOptions& options, Warnings& warnings,
                       ModelSource& source) {
  // Opened in any case: the configuration may be inside.
  source.weights = open_checkpoint(file, warnings);
  const fs::path beside = file.parent_path() / "config.json";
  if (options.config) {
    read_config(*options.config, Status::environment, source);
  } else if (const nlohmann::ordered_json* inside = source.weights->config()) {
    source.config_path = file;
    source.config = *inside;
    source.config_text = inside->dump();
  } else if (is_there(beside)) {
    read_config(beside, Status::bad_input, source);
    source.directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  } else {
    fail(Status::bad_input,
         "{}: no configuration: neither in the file nor as config.json beside it; give --config FILE",
         name_of(file));
  }
  if (!options.need_weights) source.weights.reset();
}

/// A name of the hub, as a directory of the local cache.
fs::path cached(const std::string& model) {
  if (!is_hub_name(model)) {
    fail(Status::environment, "{}: cannot open: No such file or directory", escaped(model));
  }
  const fs::path cache = hub_cache();
  if (const auto directory = find_in_hub_cache(cache, model)) return *directory;
  fail(Status::environment,
       "{}: no such file, and no such model in the local Hugging Face cache {} (HF_HUB_CACHE, HF_HOME); "
       "nothing is "
       "downloaded",
       model, cache.empty() ? "which is not set" : name_of(cache));
}

}  // namespace

ModelSource open_model_source(const std::string& model, const SourceOptions& options, Warnings& warnings) {
  ModelSource source;
  source.given = model;
  std::error_code error;
  const fs::file_status status = fs::status(model, error);
  if (status.type() == fs::file_type::not_found && !is_there(model)) {
    open_directory(cached(model), options, warnings, source);
  } else if (fs::is_directory(status)) {
    open_directory(model, options, warnings, source);
  } else {
    open_weights_file(model, options, warnings, source);
  }
  return source;
}

fs::path model_directory(const std::string& model) {
  std::error_code error;
  const fs::file_status status = fs::status(model, error);
  if (status.type() == fs::file_type::not_found && !is_there(model)) return cached(model);
  if (fs::is_directory(status)) return model;
  if (!fs::exists(status)) fail(Status::environment, "{}: cannot open: {}", escaped(model), error.message());
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
      weights.clear();  // reported if the weights are opened
    }
  }
  std::vector<fs::path> files = {directory / "config.json", weights};
  if (!fs::exists(model, error))
    files.push_back(directory / "../../refs/main");  // the snapshot of a hub name
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

}  // namespace attnctl
