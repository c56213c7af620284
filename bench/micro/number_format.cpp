// Formats attention weights (rows of softmax) as in JSON on one thread, compared with std::to_chars, which
// writes the same bytes.

#include <benchmark/benchmark.h>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "report/writers.hpp"

namespace attnctl::bench {
namespace {

constexpr std::size_t kRow = 512;

/// Softmax rows of normal scores: nine of ten weights are between 1e-5 and 1e-1.
std::vector<float> weights() {
  std::mt19937 random(1);
  std::normal_distribution<double> scores(0, 2);
  std::vector<float> made;
  for (std::size_t row = 0; row < 256; ++row) {
    std::vector<double> powers(kRow);
    double sum = 0;
    for (double& power : powers) sum += power = std::exp(scores(random));
    for (const double power : powers) made.push_back(static_cast<float>(power / sum));
  }
  return made;
}

/// Formats all weights, row by row into the same buffer, with `write(to, value)`.
template <typename Write>
void format_rows(benchmark::State& state, const Write& write) {
  const std::vector<float> values = weights();
  std::vector<char> buffer(kRow * 32 + report::NumberFormat::kMostCharacters);
  std::size_t bytes = 0;
  for (auto _ : state) {
    for (std::size_t row = 0; row < values.size(); row += kRow) {
      char* to = buffer.data();
      for (std::size_t i = row; i < row + kRow; ++i) {
        to = write(to, values[i]);
        *to++ = ',';
      }
      bytes += static_cast<std::size_t>(to - buffer.data());
      benchmark::ClobberMemory();
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(values.size()));
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}

void shortest_to_chars(benchmark::State& state) {
  format_rows(state, [](char* to, float value) { return std::to_chars(to, to + 32, value).ptr; });
}
BENCHMARK(shortest_to_chars);

void shortest(benchmark::State& state) {
  const report::NumberFormat format;
  format_rows(state, [&](char* to, float value) { return format.write(to, value); });
}
BENCHMARK(shortest);

void fixed(benchmark::State& state) {
  const report::NumberFormat format{static_cast<int>(state.range(0))};
  format_rows(state, [&](char* to, float value) { return format.write(to, value); });
}
BENCHMARK(fixed)->Arg(4)->Arg(6)->Arg(9);

}  // namespace
}  // namespace attnctl::bench
