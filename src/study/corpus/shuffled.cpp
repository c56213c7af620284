#include "study/corpus/shuffled.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/random.hpp"
#include "checkpoint/source.hpp"
#include "study/corpus/token_frequencies.hpp"

namespace attnctl {
namespace {

/// Shuffles `count` elements (Fisher and Yates). Calls swap(i, j) to exchange two of them.
template <typename Swap>
void shuffle(std::size_t count, Random& random, const Swap& swap) {
  for (std::size_t left = count; left > 1; --left) swap(left - 1, random.next() % left);
}

/// The tensors of another checkpoint, with the values of each matrix shuffled at its first use.
class ShuffledCheckpoint final : public Checkpoint {
 public:
  ShuffledCheckpoint(Checkpoint& original, std::uint64_t seed) : original_(original), seed_(seed) {}

  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return original_.tensors(); }
  [[nodiscard]] TensorView tensor(std::size_t index) override {
    const TensorView view = original_.tensor(index);
    if (view.shape.size() < 2 || !is_floating(view.dtype)) return view;
    const auto [entry, inserted] = shuffled_.try_emplace(index);
    std::vector<std::byte>& bytes = entry->second;
    if (inserted) {
      bytes.assign(view.bytes.begin(), view.bytes.end());
      Random random(seed_, index);
      const std::size_t size = size_of(view.dtype);
      shuffle(bytes.size() / size, random, [&](std::size_t i, std::size_t j) {
        std::byte* const value = bytes.data() + i * size;
        std::swap_ranges(value, value + size, bytes.data() + j * size);
      });
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

}  // namespace

Batch shuffled_tokens(const CorpusBlock& block, std::uint64_t seed, std::uint64_t repetition) {
  Batch batch = block.batch;
  const std::uint64_t block_seed = Random(Random(seed, repetition).next(), block.number).next();
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    Sequence& sequence = batch.sequences[s];
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
      if (is_ordinary(sequence, i)) positions.push_back(i);
    }
    Random random(block_seed, s);
    shuffle(positions.size(), random, [&](std::size_t i, std::size_t j) {
      std::swap(sequence.ids[positions[i]], sequence.ids[positions[j]]);
    });
  }
  return batch;
}

std::vector<Model> random_twins(const Model& model, std::size_t count, std::uint64_t seed,
                                Warnings& warnings) {
  std::vector<Model> twins;
  for (std::size_t i = 0; i < count; ++i) twins.push_back(random_twin(model, seed + i, warnings));
  return twins;
}

}  // namespace attnctl
