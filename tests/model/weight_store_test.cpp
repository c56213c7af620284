#include "model/binding/weight_store.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/memory_checkpoint.hpp"

using attnctl::Checkpoint;
using attnctl::TensorInfo;
using attnctl::TensorView;
using attnctl::WeightStore;

namespace {

/// Lends copies of tensors, and overwrites each copy with NaN when it is released.
class OverwritingCheckpoint final : public Checkpoint {
 public:
  explicit OverwritingCheckpoint(Checkpoint& from) : from_(from) {}

  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return from_.tensors(); }
  [[nodiscard]] TensorView tensor(std::size_t index) override {
    const TensorView view = from_.tensor(index);
    std::vector<std::byte>& copy = copies_[index];
    if (copy.empty()) copy.assign(view.bytes.begin(), view.bytes.end());
    return {view.dtype, view.shape, copy};
  }
  void release(std::size_t index) override {
    const auto found = copies_.find(index);
    if (found == copies_.end()) return;
    std::ranges::fill(found->second, std::byte{0xFF});
    released_.push_back(std::move(found->second));  // kept, so that a late reader sees NaN
    copies_.erase(found);
  }
  [[nodiscard]] std::size_t lent() const { return copies_.size(); }

 private:
  Checkpoint& from_;
  std::map<std::size_t, std::vector<std::byte>> copies_;
  std::vector<std::vector<std::byte>> released_;
};

/// A store over a golden model.
struct Store {
  explicit Store(const char* golden)
      : source(attnctl::test::MemoryModel::golden(golden).source()),
        config(attnctl::resolve_config(source)),
        weights(*source.weights),
        store(weights,
              bind_tensors(attnctl::family_of("config.json", source.config), config, weights, "config.json"),
              warnings) {}

  attnctl::ModelSource source;
  attnctl::ModelConfig config;
  OverwritingCheckpoint weights;
  attnctl::Warnings warnings;
  WeightStore store;
};

std::vector<float> values(const attnctl::Linear& linear) {
  std::vector<float> all;
  for (std::size_t r = 0; r < linear.stored.rows; ++r) {
    const auto row = linear.stored.row(r);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

void evict_all(Store& at) {
  for (const attnctl::LayerConfig& layer : at.config.layers) {
    at.store.evict_layer(layer.stored());
    at.store.evict_attention(layer.stored());
  }
}

}  // namespace

TEST_CASE("a lease keeps weights valid after they are evicted") {
  for (const char* const golden : {"llama", "llama-f16", "gpt2", "gpt_neox"}) {
    CAPTURE(golden);
    Store at(golden);
    auto layer = at.store.layer(at.config, 1, nullptr);
    auto attention = at.store.attention(at.config, 1, nullptr);
    const std::vector<float> query = values(layer->query);
    const std::vector<float> up = values(layer->mlp.up);
    evict_all(at);
    CHECK(values(layer->query) == query);
    CHECK(values(layer->mlp.up) == up);
    layer.reset();
    CHECK(values(attention->query) == query);
    attention.reset();
    CHECK(at.weights.lent() == 0);
  }
}

TEST_CASE("two threads lease weights while a third evicts them") {
  for (const char* const golden : {"llama", "llama-f16", "gpt_neox"}) {
    CAPTURE(golden);
    Store at(golden);
    const std::array<std::vector<float>, 2> want = {values(at.store.layer(at.config, 0, nullptr)->query),
                                                    values(at.store.layer(at.config, 1, nullptr)->query)};
    std::atomic<int> running = 2;
    std::atomic<int> wrong = 0;
    const auto read = [&](std::size_t first) {
      for (std::size_t i = 0; i < 100; ++i) {
        const std::size_t index = (first + i) % 2;
        const auto layer = at.store.layer(at.config, index, nullptr);
        const auto attention = at.store.attention(at.config, index, nullptr);
        if (values(layer->query) != want[index] || values(attention->query) != want[index]) ++wrong;
      }
      --running;
    };
    std::thread one(read, 0), two(read, 1);
    while (running > 0) evict_all(at);
    one.join();
    two.join();
    CHECK(wrong == 0);
    evict_all(at);
    CHECK(at.weights.lent() == 0);
  }
}
