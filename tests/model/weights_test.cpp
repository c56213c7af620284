#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "model/model.hpp"
#include "support/bytes.hpp"
#include "support/golden.hpp"
#include "support/memory_checkpoint.hpp"
#include "support/temp_dir.hpp"

using attnctl::checkpoint::Checkpoint;
using attnctl::checkpoint::TensorView;
using attnctl::model::Model;

namespace {

using attnctl::DType;
using attnctl::model::Linear;
using attnctl::model::Model;
using attnctl::test::MemoryModel;

}  // namespace

TEST_CASE("packed projections are slices of one tensor in both orientations") {
  const MemoryModel gpt2 = MemoryModel::golden("gpt2");
  const Model model = gpt2.bound();
  const auto& stored = gpt2.tensors.at("transformer.h.0.attn.c_attn.weight");
  std::vector<float> packed(15UL * 45);
  std::memcpy(packed.data(), stored.bytes.data(), stored.bytes.size());
  const auto lease = model.layer(0);
  const attnctl::model::LayerWeights& layer = *lease;
  CHECK(layer.query.stored(2, 3) == packed[2 * 45 + 3]);
  CHECK(layer.key.stored(2, 3) == packed[2 * 45 + 15 + 3]);
  CHECK(layer.value.stored(14, 14) == packed[14 * 45 + 30 + 14]);
  CHECK(layer.value.out() == 15);
  CHECK(layer.key.bias.size() == 15);

  const Model torch = MemoryModel::golden("attention-torch-packed").bound();
  CHECK(torch.layer(0)->key.orientation == attnctl::model::Orientation::out_in);
  CHECK(torch.layer(0)->key.stored.data == torch.layer(0)->query.stored.data + 12UL * 12);

  const Linear key = layer.key;
  const Linear head = key.outputs(5, 5);  // the second of three heads
  CHECK(head.out() == 5);
  CHECK(head.stored(2, 0) == key.stored(2, 5));
  CHECK(head.bias[0] == key.bias[5]);
  const auto part = layer.output.inputs_double(5, 5);
  CHECK(part.rows() == 5);
  CHECK(part(0, 1) == layer.output.stored(5, 1));
  const Linear torch_head = torch.layer(0)->key.outputs(4, 4);
  CHECK(torch_head.in_out_double()(3, 1) == torch.layer(0)->key.stored(5, 3));
}

TEST_CASE("float32 weights are views of the file, others are converted once") {
  const MemoryModel plain = MemoryModel::golden("llama-f16");
  const Model half = plain.bound();
  const auto lease = half.layer(0);
  CHECK(half.layer(0) == lease);
  const auto& stored = plain.tensors.at("model.layers.0.self_attn.q_proj.weight");
  REQUIRE(stored.dtype == DType::f16);
  std::uint16_t bits = 0;
  std::memcpy(&bits, stored.bytes.data() + 2UL * 7, 2);
  CHECK(lease->query.stored.data[7] == attnctl::float_from_f16(bits));

  const auto source = MemoryModel::golden("llama");
  const Model model = source.bound();
  const auto& weights = *model.source().weights;
  const auto view = model.source().weights->tensor(weights.find("model.layers.1.mlp.up_proj.weight"));
  CHECK(static_cast<const void*>(model.layer(1)->mlp.up.stored.data) ==
        static_cast<const void*>(view.bytes.data()));

  const Model albert = MemoryModel::golden("albert").bound();  // 0 0 0 1 1
  CHECK(albert.layer(0) == albert.layer(2));
  CHECK(albert.layer(0) != albert.layer(3));
  CHECK(albert.shared_with(2) == 0);
  CHECK(albert.shared_with(4) == 3);
  CHECK(model.shared_with(1) == 1);
}

namespace {

attnctl::model::Model quantised_model(attnctl::Warnings& warnings) {
  const auto file = std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden/gguf/llama-q8_0.gguf";
  return attnctl::test::bind_model(file, warnings);
}

/// Returns the decoded rows of an encoded weight.
std::vector<float> decoded(const attnctl::linalg::EncodedMatrix& matrix) {
  std::vector<float> values(matrix.rows * matrix.cols);
  for (std::size_t r = 0; r < matrix.rows; ++r)
    matrix.decode_row(r, std::span(values).subspan(r * matrix.cols, matrix.cols));
  return values;
}

}  // namespace

TEST_CASE("stored weights of a quantised model are views of the file with the same numbers") {
  attnctl::Warnings warnings;
  const Model model = quantised_model(warnings);
  const auto stored = model.layer(0, nullptr, attnctl::model::WeightForm::stored);
  CHECK(stored == model.layer(0, nullptr, attnctl::model::WeightForm::stored));
  const auto plain = model.layer(0);
  CHECK(stored != plain);
  const auto check = [](const Linear& encoded, const Linear& floats) {
    CHECK(encoded.stored.data == nullptr);
    REQUIRE(encoded.encoded.present());
    CHECK(!floats.encoded.present());
    CHECK(encoded.present());
    CHECK(encoded.in() == floats.in());
    CHECK(encoded.out() == floats.out());
    const auto values = decoded(encoded.encoded);
    CHECK(std::equal(values.begin(), values.end(), floats.stored.data));
    const Linear part = encoded.outputs(3, 5);
    CHECK(part.out() == 5);
    const auto rows = decoded(part.encoded);
    CHECK(std::equal(rows.begin(), rows.end(), floats.outputs(3, 5).stored.data));
  };
  check(stored->query, plain->query);  // its rows are stored in the order of rotary pairs
  check(stored->key, plain->key);
  check(stored->value, plain->value);
  check(stored->mlp.down, plain->mlp.down);
  CHECK(stored->attention_norm.gain.size() == 32);
  CHECK(model.layer_bytes(0, attnctl::model::WeightForm::stored) < model.layer_bytes(0) / 3);
  const auto down = plain->mlp.down.in_out_double();
  for (const std::size_t begin : {0UL, 30UL, 37UL}) {  // blocks have 32 values
    const auto part = stored->mlp.down.inputs_double(begin, 27);
    CHECK(std::ranges::equal(part.values(), down.values().subspan(begin * down.cols(), 27 * down.cols())));
  }
  const auto in_double = stored->query.in_out_double();
  CHECK(std::ranges::equal(in_double.values(), plain->query.in_out_double().values()));
  model.evict_layer(0);
  const auto again = decoded(stored->query.encoded);  // the lease is still valid
  CHECK(std::equal(again.begin(), again.end(), plain->query.stored.data));
  CHECK(warnings.list().empty());
}

TEST_CASE("rows of a quantised table are decoded one by one") {
  attnctl::Warnings warnings;
  const Model model = quantised_model(warnings);
  const auto embedding = model.embedding();
  REQUIRE(embedding->token.encoded.present());
  const auto& weights = *model.source().weights;
  const auto view = model.source().weights->tensor(weights.find("model.embed_tokens.weight"));
  std::vector<float> all(view.bytes.size() / sizeof(float));
  std::memcpy(all.data(), view.bytes.data(), view.bytes.size());
  std::vector<float> row(embedding->token.width());
  for (const std::size_t r : {0UL, 7UL, 31UL}) {
    embedding->token.row(r, row);
    CHECK(std::equal(row.begin(), row.end(), all.begin() + static_cast<std::ptrdiff_t>(r * row.size())));
  }
  CHECK(model.embedding_bytes(1) < all.size() * sizeof(float));
}

TEST_CASE("a model of float32 has the same weights in both forms") {
  const Model model = MemoryModel::golden("llama").bound();
  CHECK(model.layer(0, nullptr, attnctl::model::WeightForm::stored) == model.layer(0));
  CHECK(model.layer_bytes(0, attnctl::model::WeightForm::stored) == model.layer_bytes(0));
}

TEST_CASE("a quantised weight that is not finite gives a warning with its tensor and first index") {
  std::string bytes =
      attnctl::test::slurp(std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden/gguf/llama-q8_0.gguf");
  attnctl::Warnings quiet;
  const Model good = quantised_model(quiet);
  const auto& weights = *good.source().weights;
  const auto& tensor = weights.encoded(weights.find("model.layers.0.mlp.up_proj.weight"));
  const std::string_view stored(reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size());
  const std::size_t at = bytes.find(stored);
  REQUIRE(at != std::string::npos);
  bytes.replace(at + 34 * 5, 2, std::string("\x00\x7c", 2));  // the scale of block 5 is infinite
  const attnctl::test::TempDir folder;
  const auto file = folder.write("bad.gguf", bytes);
  attnctl::Warnings warnings;
  const Model bad = attnctl::test::bind_model(file, warnings);
  (void)bad.layer(0, nullptr, attnctl::model::WeightForm::stored);
  REQUIRE(warnings.list().size() == 1);
  CHECK(warnings.list()[0].code == "non_finite_weight");
  CHECK(warnings.list()[0].message.find("model.layers.0.mlp.up_proj.weight") != std::string::npos);
  CHECK(warnings.list()[0].message.find("[5, 0]") != std::string::npos);
}

TEST_CASE("float32 values at an odd address are converted") {
  std::string header = R"({"W_q": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}})";
  while (header.size() % 4 != 1) header += ' ';
  const float stored[4] = {1, 2, 3, 4};
  const attnctl::test::TempDir directory;
  directory.write("config.json", R"({"model_type": "attention", "heads": 1})");
  directory.write("model.safetensors",
                  attnctl::test::safetensors(header, {reinterpret_cast<const char*>(stored), sizeof stored}));
  attnctl::Warnings warnings;
  const Model model = attnctl::test::bind_model(directory.path(), warnings);
  const auto lease = model.layer(0);
  const Linear& query = lease->query;
  CHECK(query.stored(1, 0) == 3);
  CHECK(reinterpret_cast<std::uintptr_t>(query.stored.data) % alignof(float) == 0);
}

TEST_CASE("attention() does not read the rest of the layer") {
  MemoryModel model = MemoryModel::golden("llama");
  auto& tensor = model.tensors.at("model.layers.0.mlp.down_proj.weight");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(tensor.bytes.data(), &nan, sizeof nan);
  attnctl::Warnings warnings;
  const Model bound = Model::bind(model.source(), warnings);
  const auto attention = bound.attention(0);
  CHECK(warnings.list().empty());
  const auto layer = bound.layer(0);
  CHECK(warnings.list().size() == 1);
  CHECK(attention->query.stored.data == layer->query.stored.data);
  CHECK(attention->output.stored.data == layer->output.stored.data);
  CHECK(attention == bound.attention(0));
  bound.evict_layer(0);
  const auto again = bound.layer(0);
  CHECK(again->query.present());
  CHECK(bound.attention(0).get() == again.get());
}

TEST_CASE("a non-finite weight gives a warning with its tensor and first index") {
  struct Row {
    const char* why;
    float value;
    const char* shown;
  };
  for (const Row& row : {Row{"NaN", std::numeric_limits<float>::quiet_NaN(), "nan at [2, 5]"},
                         Row{"infinity", -std::numeric_limits<float>::infinity(), "-inf at [2, 5]"}}) {
    CAPTURE(std::string(row.why));
    MemoryModel model = MemoryModel::golden("llama");
    auto& tensor = model.tensors.at("model.layers.1.self_attn.k_proj.weight");
    std::memcpy(tensor.bytes.data() + (2 * 24 + 5) * sizeof(float), &row.value, sizeof(float));
    std::memcpy(tensor.bytes.data() + (3 * 24 + 1) * sizeof(float), &row.value, sizeof(float));
    attnctl::Warnings warnings;
    const Model bad = Model::bind(model.source(), warnings);
    static_cast<void>(bad.layer(0));
    CHECK(warnings.list().empty());
    static_cast<void>(bad.layer(1));
    static_cast<void>(bad.layer(1));
    REQUIRE(warnings.list().size() == 1);
    const attnctl::Warning warning = warnings.list()[0];
    CHECK(warning.code == "non_finite_weight");
    CHECK(warning.count == 2);
    CHECK(warning.message.find("weights.bin: tensor \"model.layers.1.self_attn.k_proj.weight\"") == 0);
    CHECK(warning.message.find(row.shown) != std::string::npos);
  }
  struct Bits {
    DType dtype;
    std::vector<std::uint8_t> bytes;
  };
  for (const Bits& row : {Bits{DType::f16, {0x00, 0x7c}}, Bits{DType::bf16, {0xc1, 0x7f}},
                          Bits{DType::f64, {0, 0, 0, 0, 0, 0, 0xf0, 0x7f}}}) {
    CAPTURE(std::string(attnctl::name_of(row.dtype)));
    MemoryModel model = MemoryModel::golden("llama");
    auto tensor = attnctl::test::zeros(row.dtype, {39, 24});
    std::memcpy(tensor.bytes.data() + 9 * row.bytes.size(), row.bytes.data(), row.bytes.size());
    model.tensors["model.embed_tokens.weight"] = tensor;
    attnctl::Warnings warnings;
    const Model bad = Model::bind(model.source(), warnings);
    static_cast<void>(bad.embedding());
    REQUIRE(warnings.list().size() == 1);
    CHECK(warnings.list()[0].message.find("[0, 9]") != std::string::npos);
  }
}

namespace {

/// Lends copies of tensors, and overwrites each copy with NaN when it is released.
class Lender final : public Checkpoint {
 public:
  Lender(std::shared_ptr<Checkpoint> from, std::size_t& lent) : from_(std::move(from)), lent_(lent) {
    const auto& memory = map("weights.bin", std::span<const std::byte>());
    for (const auto& info : from_->tensors()) add(memory, info, {});
  }

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
  attnctl::checkpoint::ModelSource source = attnctl::test::MemoryModel::golden(golden).source();
  source.weights = std::make_unique<Lender>(std::move(source.weights), count);
  return Model::bind(std::move(source), warnings);
}

std::vector<float> values(const attnctl::model::Linear& linear) {
  const auto& stored = linear.stored;
  std::vector<float> all;
  for (std::size_t r = 0; r < stored.rows; ++r)
    all.insert(all.end(), stored.row(r).begin(), stored.row(r).end());
  return all;
}

}  // namespace

TEST_CASE("an evicted layer releases its tensors and is read again with the same values") {
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
      for (const std::size_t index : {0U, 1U}) model.evict_layer(index);
    }
    one.join();
    two.join();
    CHECK(wrong == 0);
    for (const std::size_t index : {0U, 1U}) model.evict_layer(index);
    CHECK(count == 0);
  }
}

TEST_CASE("with_attention changes a copy of the configuration and shares the weights") {
  attnctl::Warnings warnings;
  const Model model = Model::bind(attnctl::test::MemoryModel::golden("llama").source(), warnings);
  const std::size_t layers[] = {1};
  const Model windowed = model.with_attention(*attnctl::model::parse_attention_kind("window:4"), layers);
  CHECK(to_string(windowed.config().layers[1].attention.kind) == "window:4");
  CHECK(to_string(windowed.config().layers[0].attention.kind) == "full");
  CHECK(to_string(model.config().layers[1].attention.kind) == "full");
  CHECK(windowed.layer(1) == model.layer(1));
}
