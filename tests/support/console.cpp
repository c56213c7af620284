#include "support/console.hpp"

#include <cmath>
#include <cstdlib>
#include <regex>
#include <sstream>

#include <fmt/format.h>

namespace attnctl::test {
namespace {

struct Fence {
  std::string language;
  std::size_t first_line = 0;  // first line of the content, from 1
  std::vector<std::string> lines;
};

std::vector<Fence> fences_of(std::string_view markdown) {
  std::vector<Fence> fences;
  bool inside = false;
  std::size_t number = 0;
  for (const std::string& line : lines_of(markdown)) {
    ++number;
    if (line.rfind("```", 0) == 0) {
      inside = !inside;
      if (inside) fences.push_back({line.substr(3), number + 1, {}});
    } else if (inside) {
      fences.back().lines.push_back(line);
    }
  }
  return fences;
}

/// Returns true if both are decimals with the same number of digits after the point and the same exponent (or
/// none), and they differ by at most one unit of the last digit.
bool near(const std::string& shown, const std::string& printed) {
  static const std::regex decimal("([-+]?[0-9]+\\.([0-9]+))(e[-+]?[0-9]+)?");
  std::smatch a;
  std::smatch b;
  if (!std::regex_match(shown, a, decimal) || !std::regex_match(printed, b, decimal)) return false;
  if (a[2].length() != b[2].length() || a[3] != b[3]) return false;
  const double unit = std::pow(10.0, -static_cast<double>(a[2].length()));
  const double apart = std::strtod(a[1].str().c_str(), nullptr) - std::strtod(b[1].str().c_str(), nullptr);
  return std::abs(apart) < 1.5 * unit;
}

bool same_line(const std::string& shown, const std::string& printed) {
  std::istringstream shown_words(shown);
  std::istringstream printed_words(printed);
  std::string a;
  std::string b;
  while (true) {
    const bool more_a = static_cast<bool>(shown_words >> a);
    const bool more_b = static_cast<bool>(printed_words >> b);
    if (more_a != more_b) return false;
    if (!more_a) return true;
    if (a != b && !near(a, b)) return false;
  }
}

}  // namespace

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

std::vector<Example> console_examples(std::string_view markdown) {
  std::vector<Example> examples;
  for (const Fence& fence : fences_of(markdown)) {
    if (fence.language != "console") continue;
    bool continued = false;
    for (std::size_t i = 0; i < fence.lines.size(); ++i) {
      const std::string& line = fence.lines[i];
      if (continued) {
        examples.back().command += "\n" + line;
      } else if (line.rfind("$ ", 0) == 0) {
        examples.push_back({fence.first_line + i, line.substr(2), {}});
      } else if (!examples.empty()) {
        examples.back().output.push_back(line);
        continue;
      }
      continued = !line.empty() && line.back() == '\\';
    }
  }
  return examples;
}

std::vector<NamedFile> named_files(std::string_view markdown) {
  static const std::regex name("^(?:#|//) ([A-Za-z0-9_-]+\\.[a-z]+)$");
  std::vector<NamedFile> files;
  for (const Fence& fence : fences_of(markdown)) {
    std::smatch match;
    if (fence.lines.empty() || !std::regex_match(fence.lines.front(), match, name)) continue;
    std::string text;
    for (const std::string& line : fence.lines) text += line + "\n";
    files.push_back({match[1].str(), text});
  }
  return files;
}

std::vector<std::string> help_examples(std::string_view help) {
  std::vector<std::string> commands;
  bool below = false;
  for (const std::string& line : lines_of(help)) {
    if (line == "Examples:") {
      below = true;
    } else if (below && line.rfind("  ", 0) == 0) {
      const std::string text = line.substr(2);
      const bool continues = !commands.empty() && commands.back().back() == '\\';
      if (continues) {
        commands.back() += "\n" + text;
      } else {
        commands.push_back(text);
      }
    } else {
      below = false;
    }
  }
  return commands;
}

std::string shown_against_printed(const std::vector<std::string>& shown,
                                  const std::vector<std::string>& printed) {
  std::size_t at = 0;  // index of the next printed line
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (shown[i] == "...") {
      if (i + 1 == shown.size()) return {};
      while (at < printed.size() && !same_line(shown[i + 1], printed[at])) ++at;
      continue;
    }
    if (at == printed.size()) return fmt::format("shown \"{}\", but nothing more is printed", shown[i]);
    if (!same_line(shown[i], printed[at]))
      return fmt::format("shown \"{}\", but printed \"{}\"", shown[i], printed[at]);
    ++at;
  }
  if (at != printed.size()) return fmt::format("printed further \"{}\"", printed[at]);
  return {};
}

}  // namespace attnctl::test
