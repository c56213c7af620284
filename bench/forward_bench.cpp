// Measures the forward pass of a model of BERT-base's shape with random weights, and compares it with a
// 2048-cubed sgemm on the same threads in the same run.
//   attnctl_bench [THREADS [LENGTH ...]]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/pool.hpp"
#include "forward/run.hpp"
#include "linalg/blas.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"
#include "support/memory_checkpoint.hpp"

namespace {

constexpr std::size_t layers = 12, d = 768, heads = 12, ffn = 3072, vocabulary = 1000, positions = 8192;

/// Returns the minimum of several runs, in seconds.
double seconds_of(std::size_t repeat, const std::function<void()>& work) {
  double best = 1e30;
  for (std::size_t i = 0; i <= repeat; ++i) {  // the first warms up
    const auto begin = std::chrono::steady_clock::now();
    work();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (i > 0) best = std::min(best, seconds);
  }
  return best;
}

double peak_gflops(attnctl::Pool& pool) {
  return attnctl::linalg::measure_sgemm(pool, {2048, 2048, 2048}, 5);
}

class RandomTensors {
 public:
  attnctl::test::MemoryTensor operator()(attnctl::Shape shape, float mean, float deviation) {
    std::size_t size = 1;
    for (const std::size_t extent : shape) size *= extent;
    std::uniform_real_distribution<float> uniform(mean - deviation * 1.732F, mean + deviation * 1.732F);
    std::vector<float> values(size);
    for (float& value : values) value = uniform(random_);
    return attnctl::test::floats(std::move(shape), values);
  }

 private:
  std::mt19937 random_{1};
};

attnctl::model::Model random_bert() {
  RandomTensors random;
  attnctl::test::MemoryModel model;
  model.config = {{"model_type", "bert"},
                  {"vocab_size", vocabulary},
                  {"hidden_size", d},
                  {"num_hidden_layers", layers},
                  {"num_attention_heads", heads},
                  {"intermediate_size", ffn},
                  {"type_vocab_size", 2},
                  {"max_position_embeddings", positions},
                  {"layer_norm_eps", 1e-12},
                  {"hidden_act", "gelu"}};
  auto& tensors = model.tensors;
  const auto norm = [&](const std::string& name) {
    tensors[name + ".weight"] = random({d}, 1, 0.1F);
    tensors[name + ".bias"] = random({d}, 0, 0.1F);
  };
  const auto linear = [&](const std::string& name, std::size_t in, std::size_t out) {
    tensors[name + ".weight"] = random({out, in}, 0, 0.05F);
    tensors[name + ".bias"] = random({out}, 0, 0.05F);
  };
  tensors["embeddings.word_embeddings.weight"] = random({vocabulary, d}, 0, 1);
  tensors["embeddings.position_embeddings.weight"] = random({positions, d}, 0, 1);
  tensors["embeddings.token_type_embeddings.weight"] = random({2, d}, 0, 1);
  norm("embeddings.LayerNorm");
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string layer = fmt::format("encoder.layer.{}.", i);
    for (const char* part : {"query", "key", "value"}) linear(layer + "attention.self." + part, d, d);
    linear(layer + "attention.output.dense", d, d);
    norm(layer + "attention.output.LayerNorm");
    linear(layer + "intermediate.dense", d, ffn);
    linear(layer + "output.dense", ffn, d);
    norm(layer + "output.LayerNorm");
  }
  attnctl::Warnings warnings;
  return attnctl::model::Model::bind(model.source(), warnings);
}

/// Reads a number of every panel, so that each is computed. With `whole`, the last layer runs to its end.
class Glance : public attnctl::forward::Observer {
 public:
  explicit Glance(bool whole) : whole_(whole) {}
  [[nodiscard]] attnctl::forward::Needs needs() const override {
    attnctl::forward::Needs needs;
    needs.end = whole_;
    return needs;
  }
  void begin(const attnctl::model::Model&, const attnctl::input::Batch&) override {}
  void panel(const attnctl::forward::AttentionPanel& panel) override {
    sums_[panel.head] += panel.pattern(0, 0);
  }

 private:
  bool whole_;
  std::vector<float> sums_ = std::vector<float>(heads);
};

/// A multiply-add is two operations.
double flops(std::size_t n) {
  const auto tokens = static_cast<double>(n);
  return layers * (tokens * 2.0 * (4.0 * d * d + 2.0 * d * ffn) + 4.0 * tokens * tokens * d);
}

void run(const attnctl::model::Model& model, attnctl::Pool& pool, std::size_t n, std::size_t sequences,
         double peak) {
  attnctl::input::Batch batch;
  for (std::size_t s = 0; s < sequences; ++s) {
    attnctl::input::Sequence sequence;
    for (std::size_t i = 0; i < n; ++i) {
      sequence.ids.push_back(static_cast<std::int64_t>((i * 7919 + s * 31) % vocabulary));
    }
    batch.sequences.push_back(sequence);
  }
  attnctl::Warnings warnings;
  attnctl::forward::RunContext context{pool, warnings};
  Glance glance(true);
  attnctl::forward::Observer* const observers[] = {&glance};
  const auto all = attnctl::forward::Selection::all(model.config());
  const double seconds =
      seconds_of(5, [&] { attnctl::forward::run_forward(model, batch, all, observers, context); });
  const double gflops = flops(n) * static_cast<double>(sequences) / seconds / 1e9;
  fmt::print("{:5} x {:<3} {:9.2f} ms  {:7.1f} GF/s  {:.3f} of peak\n", n, sequences, seconds * 1e3, gflops,
             gflops / peak);
}

/// THREADS and lengths from the command line, or the defaults.
void run_all(const std::vector<std::size_t>& numbers) {
  attnctl::Pool pool(numbers.empty() ? attnctl::available_threads() : numbers.front());
  const double peak = peak_gflops(pool);
  fmt::print("{} {}, kernels {}, {} threads, peak {:.1f} GF/s\n", attnctl::linalg::blas_name(),
             attnctl::linalg::blas_kernel(), attnctl::linalg::kernels().name, pool.size(), peak);
  const attnctl::model::Model model = random_bert();
  if (numbers.size() > 1) {
    for (std::size_t i = 1; i < numbers.size(); ++i) run(model, pool, numbers[i], 1, peak);
    return;
  }
  for (const std::size_t n : {16, 128, 512, 1024}) run(model, pool, n, 1, peak);
  run(model, pool, 16, 64, peak);
  fmt::print("peak again {:.1f} GF/s\n", peak_gflops(pool));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::size_t> numbers;
    for (int i = 1; i < argc; ++i) numbers.push_back(std::stoul(argv[i]));
    run_all(numbers);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attnctl_bench: %s\n", error.what());
    return 1;
  }
}
