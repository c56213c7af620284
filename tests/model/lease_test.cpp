#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "model/model.hpp"
#include "support/memory_checkpoint.hpp"

using attnctl::Checkpoint;
using attnctl::Model;
using attnctl::TensorInfo;
using attnctl::TensorView;

namespace {

/// Lends copies of tensors, and overwrites each copy with NaN when it is released.
class Lender final : public Checkpoint {
 public:
  Lender(std::shared_ptr<Checkpoint> from, std::size_t& lent) : from_(std::move(from)), lent_(lent) {}

  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return from_->tensors(); }
  [[nodiscard]] TensorView tensor(std::size_t index) override {
    const TensorView view = from_->tensor(index);
    std::vector<std::byte>& copy = copies_[index];
    if (copy.empty()) {
      copy.assign(view.bytes.begin(), view.bytes.end());
      ++lent_;
    }
    return {view.dtype, view.shape, copy};
  }
  void release(std::size_t index) override {
    std::vector<std::byte>& copy = copies_[index];
    if (copy.empty()) return;
    std::ranges::fill(copy, std::byte{0xFF});
    spoiled_.push_back(std::exchange(copy, {}));  // kept, so that a late reader sees NaN
    --lent_;
  }

 private:
  std::shared_ptr<Checkpoint> from_;
  std::size_t& lent_;
  std::map<std::size_t, std::vector<std::byte>> copies_;
  std::vector<std::vector<std::byte>> spoiled_;
};

/// Opens a golden model; `count` is the number of tensors on loan.
Model lent(const char* golden, std::size_t& count, attnctl::Warnings& warnings) {
  attnctl::ModelSource source = attnctl::test::MemoryModel::golden(golden).source();
  source.weights = std::make_unique<Lender>(std::move(source.weights), count);
  return Model::bind(std::move(source), warnings);
}

std::vector<float> values(const attnctl::Linear& linear) {
  const auto& stored = linear.stored;
  std::vector<float> all;
  for (std::size_t r = 0; r < stored.rows; ++r)
    all.insert(all.end(), stored.row(r).begin(), stored.row(r).end());
  return all;
}

}  // namespace

TEST_CASE("an evicted layer gives its tensors back, and is read again with the same values") {
  for (const char* const golden : {"llama", "llama-f16", "gpt2", "gpt_neox", "albert", "t5"}) {
    CAPTURE(golden);
    std::size_t count = 0;
    attnctl::Warnings warnings;
    const Model model = lent(golden, count, warnings);
    const std::size_t before = count;
    const std::vector<float> up = values(model.layer(0)->mlp.up);
    const std::vector<float> query = values(model.layer(0)->query);
    REQUIRE_FALSE(query.empty());
    model.evict_layer(0);
    CHECK(count == before);
    CHECK(values(model.layer(0)->mlp.up) == up);
    CHECK(values(model.layer(0)->query) == query);
    CHECK(warnings.list().empty());
  }
}

TEST_CASE("a lease keeps weights valid after they are evicted") {
  for (const char* const golden : {"llama", "llama-f16", "gpt2", "gpt_neox"}) {
    CAPTURE(golden);
    std::size_t count = 0;
    attnctl::Warnings warnings;
    const Model model = lent(golden, count, warnings);
    const std::size_t last = model.config().layers.size() - 1;
    auto layer = model.layer(last);
    auto attention = model.attention(last);
    const std::vector<float> query = values(layer->query);
    const std::vector<float> up = values(layer->mlp.up);
    model.evict_layer(last);
    model.evict_attention(last);
    CHECK(values(layer->query) == query);
    CHECK(values(layer->mlp.up) == up);
    layer.reset();
    CHECK(values(attention->query) == query);
    attention.reset();
    CHECK(count == 0);
  }
}

TEST_CASE("an attention that is read already becomes part of its layer") {
  for (const char* const golden : {"llama", "gpt2", "gpt_neox"}) {
    CAPTURE(golden);
    std::size_t count = 0;
    attnctl::Warnings warnings;
    const Model model = lent(golden, count, warnings);
    const std::vector<float> query = values(model.attention(1)->query);
    CHECK(model.layer(1)->query.stored.data == model.attention(1)->query.stored.data);
    model.evict_attention(1);
    CHECK(values(model.layer(1)->query) == query);
    model.evict_layer(1);
    CHECK(count == 0);
  }
}

TEST_CASE("rows of a table stay valid while the head uses and returns the same tensor") {
  for (const char* const golden : {"gpt2", "bert"}) {
    CAPTURE(golden);
    std::size_t count = 0;
    attnctl::Warnings warnings;
    const Model model = lent(golden, count, warnings);
    std::vector<float> row(model.embedding()->token.width());
    model.embedding()->token.row(1, row);
    const std::vector<float> before = row;
    (void)model.head();
    model.evict_embedding();
    const std::vector<float> decoder = values(model.head()->decoder);
    CHECK(std::equal(before.begin(), before.end(),
                     decoder.begin() + static_cast<std::ptrdiff_t>(before.size())));
    model.embedding()->token.row(1, row);
    CHECK(row == before);
  }
}

TEST_CASE("two threads lease weights while a third evicts them") {
  for (const char* const golden : {"llama", "gpt2", "gpt_neox"}) {
    CAPTURE(golden);
    std::size_t count = 0;
    attnctl::Warnings warnings;
    const Model model = lent(golden, count, warnings);
    const std::array<std::vector<float>, 2> want = {values(model.layer(0)->query),
                                                    values(model.layer(1)->query)};
    std::atomic<int> running = 2;
    std::atomic<int> wrong = 0;
    const auto read = [&](std::size_t first) {
      for (std::size_t i = 0; i < 300; ++i) {
        const std::size_t index = (first + i) % 2;
        const auto layer = model.layer(index);
        const auto attention = model.attention(index);
        if (values(layer->query) != want[index] || values(attention->query) != want[index]) ++wrong;
      }
      --running;
    };
    std::thread one(read, 0), two(read, 1);
    while (running > 0) {
      for (const std::size_t index : {0U, 1U}) {
        model.evict_layer(index);
        model.evict_attention(index);
      }
    }
    one.join();
    two.join();
    CHECK(wrong == 0);
    for (const std::size_t index : {0U, 1U}) {
      model.evict_layer(index);
      model.evict_attention(index);
    }
    CHECK(count == 0);
  }
}

TEST_CASE("with_attention changes a copy of the configuration and shares the weights") {
  attnctl::Warnings warnings;
  const Model model = Model::bind(attnctl::test::MemoryModel::golden("llama").source(), warnings);
  const std::size_t layers[] = {1};
  const Model windowed = model.with_attention(*attnctl::parse_attention_kind("window:4"), layers);
  CHECK(to_string(windowed.config().layers[1].attention.kind) == "window:4");
  CHECK(to_string(windowed.config().layers[0].attention.kind) == "full");
  CHECK(to_string(model.config().layers[1].attention.kind) == "full");
  CHECK(windowed.layer(1) == model.layer(1));
}
