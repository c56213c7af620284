#include "study/corpus/random_twin.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "checkpoint/source.hpp"

namespace attnctl {
namespace {

/// Shuffles elements of `size` bytes each (Fisher and Yates).
void shuffle(std::span<std::byte> bytes, std::size_t size, Random& random) {
  for (std::size_t left = bytes.size() / size; left > 1; --left) {
    const std::size_t other = random.next() % left;
    const auto at = [&](std::size_t i) { return bytes.begin() + static_cast<std::ptrdiff_t>(i * size); };
    std::swap_ranges(at(left - 1), at(left), at(other));
  }
}

/// The tensors of another checkpoint, with the values of each matrix shuffled at its first use.
class ShuffledCheckpoint final : public Checkpoint {
 public:
  ShuffledCheckpoint(Checkpoint& original, std::uint64_t seed) : original_(original), seed_(seed) {}

  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return original_.tensors(); }
  [[nodiscard]] TensorView tensor(std::size_t index) override {
    const TensorView view = original_.tensor(index);
    if (view.shape.size() < 2 || !is_floating(view.dtype)) return view;
    const auto [place, fresh] = shuffled_.try_emplace(index);
    std::vector<std::byte>& bytes = place->second;
    if (fresh) {
      bytes.assign(view.bytes.begin(), view.bytes.end());
      Random random(seed_, index);
      shuffle(bytes, size_of(view.dtype), random);
    }
    return {view.dtype, view.shape, bytes};
  }
  void release(std::size_t index) override { shuffled_.erase(index); }
  [[nodiscard]] const nlohmann::ordered_json* config() const override { return original_.config(); }

 private:
  Checkpoint& original_;
  std::uint64_t seed_;
  std::map<std::size_t, std::vector<std::byte>> shuffled_;
};

}  // namespace

Model random_twin(const Model& model, std::uint64_t seed, Warnings& warnings) {
  const ModelSource& of = model.source();
  ModelSource source;
  source.given = of.given;
  source.directory = of.directory;
  source.config_path = of.config_path;
  source.config_text = of.config_text;
  source.config = of.config;
  source.weights = std::make_unique<ShuffledCheckpoint>(*of.weights, seed);
  return Model::bind(std::move(source), warnings);
}

std::vector<Model> random_twins(const Model& model, std::size_t count, std::uint64_t seed,
                                Warnings& warnings) {
  std::vector<Model> twins;
  for (std::size_t i = 0; i < count; ++i) twins.push_back(random_twin(model, seed + i, warnings));
  return twins;
}

}  // namespace attnctl
