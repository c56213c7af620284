// Prints the mean entropy of the attention of each head over all lines of standard input, in nats.
// Usage: observer MODEL < TEXTS

#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include <attnctl/attnctl.hpp>

namespace {

class MeanEntropy : public attn::Observer {
 public:
  void begin(const attn::Batch& batch) override {
    for (const attn::LayerInfo& layer : batch.model().info().layers) means_.emplace_back(layer.heads);
  }

  /// Needs no lock: two threads may pass panels of two heads at once, but never two panels of one head.
  void panel(const attn::Panel& panel) override {
    Mean& mean = means_.at(panel.head.layer).at(panel.head.head);
    for (std::size_t r = 0; r < panel.weights.rows; ++r) {
      for (const float weight : panel.weights.row(r)) {
        if (weight > 0) mean.sum -= weight * std::log(weight);
      }
    }
    mean.rows += panel.weights.rows;
  }

  void print() const {
    for (std::size_t layer = 0; layer < means_.size(); ++layer) {
      std::printf("layer %zu ", layer);
      for (const Mean& mean : means_[layer]) std::printf(" %.2f", mean.sum / static_cast<double>(mean.rows));
      std::printf("\n");
    }
  }

 private:
  struct Mean {
    double sum = 0;
    std::size_t rows = 0;
  };
  std::vector<std::vector<Mean>> means_;  // [layers][heads]
};

}  // namespace

int main(int argc, char** argv) try {
  const attn::Model model = attn::Model::open(argc == 2 ? argv[1] : "");
  std::vector<attn::Input> inputs;
  for (std::string line; std::getline(std::cin, line);) inputs.push_back({.text = line});
  MeanEntropy entropy;
  attn::run(attn::Batch(model, inputs), entropy);
  entropy.print();
} catch (const attn::Error& error) {
  std::fprintf(stderr, "observer: %s\n", error.what());
  return static_cast<int>(error.status());
}
