#include "checkpoint/hub_cache.hpp"

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/text.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kLongestReference = 256;

bool is_plain(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), allowed);
}

/// A variable that is set and not empty.
std::optional<std::filesystem::path> variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace

bool is_hub_name(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) return is_plain(name);
  return is_plain(name.substr(0, slash)) && is_plain(name.substr(slash + 1));
}

std::filesystem::path hub_cache() {
  if (const auto hub = variable("HF_HUB_CACHE")) return *hub;
  if (const auto home = variable("HF_HOME")) return *home / "hub";
  if (const auto cache = variable("XDG_CACHE_HOME")) return *cache / "huggingface" / "hub";
  if (const auto home = variable("HOME")) return *home / ".cache" / "huggingface" / "hub";
  return {};
}

std::optional<std::filesystem::path> find_in_hub_cache(const std::filesystem::path& cache,
                                                       std::string_view name) {
  std::string folder = "models--";
  for (const char c : name) folder += c == '/' ? std::string("--") : std::string(1, c);
  const std::filesystem::path model = cache / folder;
  std::error_code ignored;
  if (cache.empty() || !std::filesystem::is_directory(model, ignored)) return std::nullopt;
  const std::filesystem::path reference = model / "refs" / "main";
  std::string commit = read_file(reference, kLongestReference, Status::bad_input);
  commit.erase(std::find_if(commit.begin(), commit.end(), [](char c) { return c == '\n' || c == '\r'; }),
               commit.end());
  if (!is_plain(commit)) {
    fail(Status::bad_input, "{}: got {}, need the name of a snapshot", escaped(reference.string()),
         in_quotes(commit));
  }
  std::filesystem::path snapshot = model / "snapshots" / commit;
  if (!std::filesystem::is_directory(snapshot, ignored)) {
    fail(Status::bad_input, "{}: the snapshot that refs/main names is missing; download the model again",
         escaped(snapshot.string()));
  }
  return snapshot;
}

}  // namespace attnctl
