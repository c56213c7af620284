#include "model/random_layer.hpp"

#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/random.hpp"
#include "checkpoint/source.hpp"

namespace attnctl {
namespace {

/// Random tensors [d, d].
class RandomWeights final : public Checkpoint {
 public:
  explicit RandomWeights(const RandomLayer& sizes) {
    const double deviation = 1 / std::sqrt(static_cast<double>(sizes.d_model));
    std::uint64_t stream = 1;
    for (const char* name : {"W_k", "W_o", "W_q", "W_v"}) {
      Random random(sizes.seed, stream++);
      std::vector<float>& values = values_.emplace_back(sizes.d_model * sizes.d_model);
      for (float& value : values) value = static_cast<float>(deviation * random.normal());
      infos_.push_back({name, DType::f32, {sizes.d_model, sizes.d_model}, "random weights"});
    }
  }
  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return infos_; }
  [[nodiscard]] TensorView tensor(std::size_t index) override {
    return {DType::f32, infos_.at(index).shape, std::as_bytes(std::span<const float>(values_.at(index)))};
  }

 private:
  std::vector<TensorInfo> infos_;
  std::vector<std::vector<float>> values_;
};

}  // namespace

Model random_layer(const RandomLayer& sizes, Warnings& warnings) {
  ModelSource source;
  source.given = source.config_path = "random layer";
  source.config = {{"model_type", "attention"}, {"heads", sizes.heads}};
  source.config_text = source.config.dump();
  source.weights = std::make_unique<RandomWeights>(sizes);
  return Model::bind(std::move(source), warnings);
}

}  // namespace attnctl
