#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>

#include "base/files/input_file.hpp"
#include "fuzz.hpp"

// Runs targets on files: attnctl_fuzz_seeds FILE|FOLDER... The name of a file's folder is the target.
int main(int count, char** arguments) {
  using namespace attnctl;
  namespace fs = std::filesystem;
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
  for (int i = 1; i < count; ++i) {
    if (!fs::is_directory(arguments[i])) {
      run(fs::absolute(arguments[i]));
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(arguments[i])) {
      if (entry.is_regular_file()) run(fs::absolute(entry.path()));
    }
  }
  for (const auto& [name, times] : runs) std::printf("%-16s %d\n", name.c_str(), times);
  const auto unused = [](const auto& each) { return each.second == 0; };
  return count == 2 && fs::is_directory(arguments[1]) && std::ranges::any_of(runs, unused) ? 1 : 0;
}
