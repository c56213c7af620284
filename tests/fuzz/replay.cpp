#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "base/files/input_file.hpp"
#include "fuzz.hpp"

namespace {

using namespace attnctl;
namespace fs = std::filesystem;

/// Returns false if `paths` is one folder that has no file for a target.
bool replay(std::span<char*> paths) {
  std::map<std::string, int> runs;
  for (const fuzz::Target& target : fuzz::targets()) runs[std::string(target.name)] = 0;
  const auto run = [&](const fs::path& file) {
    const std::string name = file.parent_path().filename().string();
    const auto target = std::ranges::find(fuzz::targets(), name, &fuzz::Target::name);
    if (target == fuzz::targets().end()) fail(Status::usage, "{}: no target {}", file.string(), name);
    std::fprintf(stderr, "%s\n", file.c_str());  // names the file if the target crashes
    const std::string bytes = read_file(file, std::size_t{1} << 30);
    fuzz::attempt([&] { target->run(bytes); });
    ++runs[name];
  };
  for (const char* const path : paths) {
    if (!fs::is_directory(path)) {
      run(fs::absolute(path));
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) run(fs::absolute(entry.path()));
    }
  }
  for (const auto& [name, times] : runs) std::printf("%-16s %d\n", name.c_str(), times);
  const auto unused = [](const auto& each) { return each.second == 0; };
  return paths.size() != 1 || !fs::is_directory(paths[0]) || std::ranges::none_of(runs, unused);
}

}  // namespace

// Runs targets on files: attnctl_fuzz_seeds FILE|FOLDER... The name of a file's folder is the target.
int main(int count, char** arguments) {
  try {
    return replay(std::span(arguments, static_cast<std::size_t>(count)).subspan(1)) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz: %s\n", error.what());
    return 1;
  }
}
