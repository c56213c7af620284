// attnctl_tokenizer_bench DIR [FILE [PASSES]]
// Prints "LOAD ENCODE LINES TOKENS BYTES": milliseconds to open the tokenizer of DIR and to encode every line
// of FILE on one thread (best of PASSES, default 3, after a warm-up), and the numbers of lines, tokens and
// bytes. compare_tokenizers.py compares it with the `tokenizers` library.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.hpp"

namespace {

using attnctl::tokenizer::Tokenizer;

template <typename Work>
double milliseconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<std::string> read_lines(const char* path) {
  std::vector<std::string> lines;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void measure(const char* directory, const char* path, int passes) {
  double load = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    load = std::min(load, milliseconds([&] { (void)Tokenizer::open({directory}); }));
  }
  const Tokenizer tokenizer = Tokenizer::open({directory});
  const std::vector<std::string> lines = path == nullptr ? std::vector<std::string>{} : read_lines(path);
  const auto state = tokenizer.make_state();
  attnctl::tokenizer::Encoding encoding;
  std::size_t tokens = 0;
  std::size_t bytes = 0;
  const auto encode_all = [&] {
    tokens = bytes = 0;
    for (const std::string& line : lines) {
      tokenizer.encode(line, std::nullopt, *state, encoding);
      tokens += encoding.size();
      bytes += line.size();
    }
  };
  const double first = milliseconds(encode_all);
  double again = std::numeric_limits<double>::infinity();
  for (int i = 0; i < passes; ++i) again = std::min(again, milliseconds(encode_all));
  std::printf("%.3f %.3f %.3f %zu %zu %zu\n", load, first, again, lines.size(), tokens, bytes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("attnctl_tokenizer_bench DIR [FILE [PASSES]]\n", stderr);
    return 2;
  }
  try {
    measure(argv[1], argc > 2 ? argv[2] : nullptr, argc > 3 ? std::atoi(argv[3]) : 3);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attnctl_tokenizer_bench: %s\n", error.what());
    return 3;
  }
  return 0;
}
