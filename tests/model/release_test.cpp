#include <algorithm>
#include <map>
#include <memory>
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

TEST_CASE("a released layer returns its tensors, and is read again with the same values") {
  for (const char* const golden : {"llama", "llama-f16", "gpt2", "gpt_neox", "albert", "t5"}) {
    CAPTURE(golden);
    std::size_t count = 0;
    attnctl::Warnings warnings;
    const Model model = lent(golden, count, warnings);
    const std::size_t before = count;
    const std::vector<float> up = values(model.layer(0).mlp.up);
    const std::vector<float> query = values(model.layer(0).query);
    REQUIRE_FALSE(query.empty());
    model.release_layer(0);
    CHECK(count == before);
    CHECK(values(model.layer(0).mlp.up) == up);
    CHECK(values(model.layer(0).query) == query);
    CHECK(warnings.list().empty());
  }
}

TEST_CASE("attention() and layer() are released independently") {
  for (const char* const golden : {"llama", "gpt2", "gpt_neox"}) {
    CAPTURE(golden);
    std::size_t count = 0;
    attnctl::Warnings warnings;
    const Model model = lent(golden, count, warnings);
    const std::vector<float> query = values(model.layer(1).query);
    const attnctl::AttentionWeights& kept = model.attention(1);
    model.release_layer(1);
    CHECK(values(kept.query) == query);
    const attnctl::LayerWeights& again = model.layer(1);
    model.release_attention(1);
    CHECK(values(again.query) == query);
    model.release_layer(1);
    CHECK(count == 0);
  }
}

TEST_CASE("rows of a table stay valid while the head uses the same tensor") {
  for (const char* const golden : {"gpt2", "bert"}) {
    CAPTURE(golden);
    std::size_t count = 0;
    attnctl::Warnings warnings;
    const Model model = lent(golden, count, warnings);
    const attnctl::LookupTable& token = model.embedding().token;
    std::vector<float> row(token.width());
    token.row(1, row);
    const std::vector<float> before = row;
    (void)model.head();
    model.release_embedding();
    const std::vector<float> decoder = values(model.head().decoder);
    CHECK(std::equal(before.begin(), before.end(),
                     decoder.begin() + static_cast<std::ptrdiff_t>(before.size())));
    model.embedding().token.row(1, row);
    CHECK(row == before);
  }
}
