#include "analysis_bench.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/pool.hpp"
#include "linalg/blas.hpp"
#include "support/memory_checkpoint.hpp"

namespace attnctl::bench {

double best_ms(int runs, const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

model::Model random_model(const Shapes& shapes) {
  std::mt19937_64 engine(1);
  std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(shapes.d)));
  test::MemoryModel model;
  model.config = {{"model_type", "attention"}, {"heads", shapes.heads}, {"layers", shapes.layers}};
  for (std::size_t layer = 0; layer < shapes.layers; ++layer) {
    for (const char* name : {"W_q", "W_k", "W_v", "W_o"}) {
      std::vector<float> values(shapes.d * shapes.d);
      for (float& value : values) value = normal(engine);
      const std::string prefix = shapes.layers > 1 ? "layers." + std::to_string(layer) + "." : "";
      model.tensors[prefix + name] = test::floats({shapes.d, shapes.d}, values);
    }
  }
  static Warnings warnings;
  return model::Model::bind(model.source(), warnings);
}

}  // namespace attnctl::bench

int main(int argc, char** argv) {
  using namespace attnctl;
  struct Row {
    std::string_view name;
    void (*run)(std::size_t threads);
  };
  const std::vector<Row> all{{"weights", bench::weights},
                             {"weights_layer", bench::weights_layer},
                             {"pattern_metrics", bench::pattern_metrics}};
  std::size_t threads = available_threads();
  std::vector<std::string_view> wanted;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--threads" && i + 1 < argc) {
      threads = std::strtoul(argv[++i], nullptr, 10);
    } else {
      wanted.emplace_back(argv[i]);
    }
  }
  std::printf("%s, kernel %s, %zu threads\n", linalg::blas_name().c_str(), linalg::blas_kernel().c_str(),
              threads);
  for (const Row& row : all) {
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), row.name) != wanted.end()) row.run(threads);
  }
  return 0;
}
