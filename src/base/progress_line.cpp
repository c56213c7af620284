#include "base/progress_line.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace attnctl {
namespace {

std::string time_text(double seconds) {
  const auto whole = static_cast<long long>(std::min(std::ceil(seconds), 359999.0));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

/// How much is done in a second, in the units of the counts.
std::string rate_text(double rate) {
  return rate < 10 ? fmt::format("{:.1f}/s", rate) : fmt::format("{:.0f}/s", rate);
}

}  // namespace

std::string progress_line(const std::string& label, std::size_t done, std::size_t total, double seconds,
                          std::size_t width) {
  done = std::min(done, total);
  const double share = total == 0 ? 0 : static_cast<double>(done) / static_cast<double>(total);
  std::string counts = fmt::format("  {}/{}", done, total);
  if (done > 0) {
    if (seconds > 0) counts += "  " + rate_text(static_cast<double>(done) / seconds);
    counts += fmt::format("  {} left", time_text(seconds * (1 - share) / share));
  }
  std::string line = label + "  ";
  constexpr std::size_t least_bar = 10;
  constexpr std::size_t most_bar = 40;
  const std::size_t taken = line.size() + counts.size() + 2;
  const std::size_t bar = std::min(most_bar, width - std::min(width, taken));
  if (bar >= least_bar) {
    const auto filled = static_cast<std::size_t>(share * static_cast<double>(bar));
    line += '[' + std::string(filled, '#') + std::string(bar - filled, '-') + ']';
  }
  line += counts;
  return line.substr(0, width);
}

}  // namespace attnctl
