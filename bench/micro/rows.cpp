// Vector kernels over rows, for each instruction set of this CPU: bytes read per second, and elements per
// second.

#include <benchmark/benchmark.h>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "linalg/kernels/kernels.hpp"
#include "random_values.hpp"

namespace attnctl::bench {
namespace {

void count_elements(benchmark::State& state, std::size_t elements) {
  state.SetItemsProcessed(static_cast<std::int64_t>(elements) * state.iterations());
}

void softmax(benchmark::State& state, const linalg::Kernels* set) {
  const std::vector<float> scores = random_values(static_cast<std::size_t>(state.range(0)));
  std::vector<float> pattern(scores.size());
  for (auto _ : state) {
    set->softmax(scores, pattern);
    benchmark::DoNotOptimize(pattern.data());
  }
  count_elements(state, scores.size());
}

void layer_norm(benchmark::State& state, const linalg::Kernels* set) {
  const std::vector<float> x = random_values(static_cast<std::size_t>(state.range(0)));
  std::vector<float> out(x.size());
  for (auto _ : state) {
    set->layer_norm(x, x, x, 1e-12F, out);
    benchmark::DoNotOptimize(out.data());
  }
  count_elements(state, x.size());
}

void rms_norm(benchmark::State& state, const linalg::Kernels* set) {
  const std::vector<float> x = random_values(static_cast<std::size_t>(state.range(0)));
  std::vector<float> out(x.size());
  for (auto _ : state) {
    set->rms_norm(x, x, 1e-6F, out);
    benchmark::DoNotOptimize(out.data());
  }
  count_elements(state, x.size());
}

void entropy(benchmark::State& state, const linalg::Kernels* set) {
  const std::vector<float> scores = random_values(static_cast<std::size_t>(state.range(0)));
  std::vector<float> pattern(scores.size());
  set->softmax(scores, pattern);
  for (auto _ : state) benchmark::DoNotOptimize(set->sum_x_log_x(pattern));
  count_elements(state, scores.size());
}

/// Runs in place, on a copy, so that the arguments stay the same. The copy costs little.
void activation(benchmark::State& state, void (*apply)(std::span<float>)) {
  const std::vector<float> x = random_values(static_cast<std::size_t>(state.range(0)));
  std::vector<float> y(x.size());
  for (auto _ : state) {
    y = x;
    apply(y);
    benchmark::DoNotOptimize(y.data());
  }
  count_elements(state, x.size());
}

template <typename Function, typename... Arguments>
void add(const std::string& name, std::string_view set, Function* function, Arguments... arguments) {
  auto* const made =
      benchmark::RegisterBenchmark((name + "/" + std::string(set)).c_str(), function, arguments...);
  for (const int elements : {64, 768, 3072}) made->Arg(elements);
}

const bool kRegistered = [] {
  for (const char* name : {"sse2", "avx2", "avx512", "baseline"}) {
    const linalg::Kernels* const set = linalg::kernels_named(name);
    if (set == nullptr) continue;
    add("softmax", name, softmax, set);
    add("layer_norm", name, layer_norm, set);
    add("rms_norm", name, rms_norm, set);
    add("sum_x_log_x", name, entropy, set);
    add("gelu_erf", name, activation, set->gelu_erf);
    add("gelu_tanh", name, activation, set->gelu_tanh);
    add("silu", name, activation, set->silu);
    add("tanh", name, activation, set->tanh);
  }
  return true;
}();

}  // namespace
}  // namespace attnctl::bench
