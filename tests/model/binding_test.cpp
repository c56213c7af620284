#include "attnctl/model/family.hpp"
#include "attnctl/model/model.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>

#include <doctest/doctest.h>

#include "support/golden.hpp"
#include "support/memory_checkpoint.hpp"
#include "support/refusal.hpp"

namespace {

using attnctl::DType;
using attnctl::Linear;
using attnctl::Model;
using attnctl::Status;
using attnctl::test::MemoryModel;

const std::string golden = ATTNCTL_SOURCE_DIR "/tests/golden/";

MemoryModel read(const std::string& model) {
  return MemoryModel::read(golden + model);
}

Model bound(const MemoryModel& model) {
  static attnctl::Warnings warnings;
  return Model::bind(model.source(), warnings);
}

std::vector<double> values(const Linear& linear) {
  const auto matrix = linear.in_out_double();
  std::vector<double> all(matrix.values().begin(), matrix.values().end());
  all.insert(all.end(), linear.bias.begin(), linear.bias.end());
  return all;
}

/// All that a layer computes with, in one list.
std::vector<double> weights_of(const Model& model, std::size_t index) {
  const attnctl::LayerWeights& layer = model.layer(index);
  std::vector<double> all;
  for (const Linear* linear :
       {&layer.query, &layer.key, &layer.value, &layer.output, &layer.up, &layer.gate, &layer.down}) {
    const auto some = values(*linear);
    all.insert(all.end(), some.begin(), some.end());
  }
  for (const attnctl::NormWeights* norm : {&layer.attention_norm, &layer.mlp_norm}) {
    all.insert(all.end(), norm->gain.begin(), norm->gain.end());
    all.insert(all.end(), norm->bias.begin(), norm->bias.end());
  }
  return all;
}

}  // namespace

TEST_CASE("a checkpoint binds the same with and without its prefix, and under old names of norms") {
  struct Row {
    const char* model;
    const char* from;
    const char* to;
  };
  for (const Row& row :
       {Row{"bert", "bert.", ""}, Row{"albert", "albert.", ""}, Row{"gpt2", "transformer.", ""},
        Row{"llama", "model.", ""}, Row{"bert-headless", "embeddings.", "bert.embeddings."},
        Row{"bert", "LayerNorm.weight", "LayerNorm.gamma"},
        Row{"bert", "LayerNorm.bias", "LayerNorm.beta"}}) {
    CAPTURE(std::string(row.model));
    CAPTURE(std::string(row.from));
    const MemoryModel as_is = read(row.model);
    MemoryModel renamed = as_is;
    renamed.rename(row.from, row.to);
    if (std::string(row.model) == "bert-headless") renamed.rename("encoder.", "bert.encoder.");
    REQUIRE(renamed.tensors.size() == as_is.tensors.size());
    const Model a = bound(as_is);
    const Model b = bound(renamed);
    CHECK(a.parameters() == b.parameters());
    CHECK(a.unused_tensors() == b.unused_tensors());
    CHECK(a.config().head.present == b.config().head.present);
    for (std::size_t i = 0; i < a.config().layers.size(); ++i) CHECK(weights_of(a, i) == weights_of(b, i));
  }
}

TEST_CASE("missing, misshapen and unusable tensors are refused by name") {
  struct Row {
    const char* model;
    std::function<void(MemoryModel&)> change;
    std::vector<std::string_view> parts;
  };
  const std::vector<Row> rows = {
      {"llama",
       [](MemoryModel& m) { m.tensors.erase("model.norm.weight"); },
       {"weights.bin: 1 tensor is missing that config.json needs: model.norm.weight"}},
      {"bert",
       [](MemoryModel& m) {
         std::erase_if(m.tensors,
                       [](const auto& t) { return t.first.find("layer.1.") != std::string::npos; });
       },
       {"16 tensors are missing",
        "bert.encoder.layer.1.attention.self.query.weight, bert.encoder.layer.1.attention.self.query.bias",
        "bert.encoder.layer.1.attention.output.dense.bias and 8 more"}},
      {"bert-headless",
       [](MemoryModel& m) { m.tensors.erase("encoder.layer.0.attention.self.query.weight"); },
       {"needs: encoder.layer.0.attention.self.query.weight"}},
      {"bert",
       [](MemoryModel& m) { m.tensors.erase("cls.predictions.transform.dense.weight"); },
       {"needs: cls.predictions.transform.dense.weight"}},
      {"llama", [](MemoryModel& m) { m.tensors.clear(); }, {"config.json", "34 tensors are missing"}},
      {"gpt2",
       [](MemoryModel& m) {
         m.tensors["transformer.h.1.attn.c_attn.weight"] = attnctl::test::ramp({15, 44});
       },
       {"\"transformer.h.1.attn.c_attn.weight\": got shape [15, 44], need [15, 45]", "3 heads"}},
      {"gpt2",
       [](MemoryModel& m) {
         m.tensors["transformer.h.1.attn.c_attn.weight"] = attnctl::test::ramp({45, 15});
       },
       {"got shape [45, 15], need [15, 45]"}},
      {"llama",
       [](MemoryModel& m) {
         m.tensors["model.layers.0.input_layernorm.weight"] = attnctl::test::ramp({24, 1});
       },
       {"input_layernorm.weight\": got shape [24, 1], need [24]"}},
      {"bert",
       [](MemoryModel& m) { m.config["max_position_embeddings"] = 12; },
       {"position_embeddings.weight\": got shape [11, 24], need [12, 24]", "12 positions"}},
      {"llama",
       [](MemoryModel& m) { m.tensors["model.norm.weight"] = attnctl::test::zeros(DType::i32, {24}); },
       {"\"model.norm.weight\": got dtype I32, need F64, F32, F16 or BF16"}},
      {"bert",
       [](MemoryModel& m) {
         m.tensors["bert.encoder.layer.0.attention.self.key.weight"] =
             attnctl::test::zeros(DType::boolean, {24, 24});
       },
       {"self.key.weight\": got dtype BOOL"}},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.model));
    CAPTURE(std::string(row.parts.front()));
    MemoryModel changed = read(row.model);
    row.change(changed);
    attnctl::test::check_refusal([&] { static_cast<void>(bound(changed)); }, Status::bad_input, row.parts);
  }
}

TEST_CASE("tensors that no pass needs are counted, known buffers are not") {
  MemoryModel model = read("llama");
  CHECK(bound(model).unused_tensors() == 0);
  model.tensors["model.rotary_emb.inv_freq"] = attnctl::test::ramp({5});
  model.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = attnctl::test::ramp({5});
  model.tensors["position_ids"] = attnctl::test::zeros(DType::i64, {1, 17});
  CHECK(bound(model).unused_tensors() == 0);
  model.tensors["model.layers.7.mlp.up_proj.weight"] = attnctl::test::ramp({2, 2});
  model.tensors["xposition_ids"] = attnctl::test::ramp({2});
  CHECK(bound(model).unused_tensors() == 2);
  CHECK(bound(read("bert")).unused_tensors() == 4);  // a pooler and a next-sentence head, each W and b
  CHECK(bound(read("gpt2-inverse-layer")).unused_tensors() == 0);  // attn.bias, attn.masked_bias
}

TEST_CASE("the head is the stored one, else the embedding") {
  const Model own = bound(read("llama"));
  CHECK_FALSE(own.config().head.tied);
  MemoryModel without = read("llama");
  without.tensors.erase("lm_head.weight");
  attnctl::Warnings warnings;
  const Model tied = Model::bind(without.source(), warnings);
  CHECK(tied.config().head.tied);
  REQUIRE(warnings.list().size() == 1);  // the configuration says that they are not tied
  CHECK(warnings.list()[0].code == "head_from_embedding");
  const Linear& decoder = tied.head().decoder;
  CHECK(decoder.in() == 24);
  CHECK(decoder.out() == 39);
  std::vector<float> row(24);
  tied.embedding().token.row(38, row);
  CHECK(std::ranges::equal(row, decoder.stored.row(38)));
  CHECK(own.parameters() == tied.parameters() + 24UL * 39);

  const Model albert = bound(read("albert"));
  CHECK(albert.head().transform.in() == 15);
  CHECK(albert.head().transform.out() == 10);
  CHECK(albert.head().decoder.bias.size() == 41);
  CHECK_FALSE(bound(read("albert-headless")).config().head.present);

  MemoryModel both = read("bert");  // decoder.bias is what the decoder adds
  both.tensors["cls.predictions.decoder.bias"] = attnctl::test::ramp({37});
  CHECK(bound(both).head().decoder.bias[1] == 0.02F);
  CHECK(bound(both).unused_tensors() == 5);
}

TEST_CASE("packed projections are slices of their tensor, in both orientations") {
  const MemoryModel gpt2 = read("gpt2");
  const Model model = bound(gpt2);
  const auto& stored = gpt2.tensors.at("transformer.h.0.attn.c_attn.weight");
  std::vector<float> packed(15UL * 45);
  std::memcpy(packed.data(), stored.bytes.data(), stored.bytes.size());
  const attnctl::LayerWeights& layer = model.layer(0);
  CHECK(layer.query.stored(2, 3) == packed[2 * 45 + 3]);
  CHECK(layer.key.stored(2, 3) == packed[2 * 45 + 15 + 3]);
  CHECK(layer.value.stored(14, 14) == packed[14 * 45 + 30 + 14]);
  CHECK(layer.value.out() == 15);
  CHECK(layer.key.bias.size() == 15);

  const Model torch = bound(read("attention-torch-packed"));
  CHECK(torch.layer(0).key.orientation == attnctl::Orientation::out_in);
  CHECK(torch.layer(0).key.stored.data == torch.layer(0).query.stored.data + 12UL * 12);

  const Linear key = layer.key;
  const Linear head = key.outputs(5, 5);  // the second of three heads
  CHECK(head.out() == 5);
  CHECK(head.stored(2, 0) == key.stored(2, 5));
  CHECK(head.bias[0] == key.bias[5]);
  const Linear part = layer.output.inputs(5, 5);
  CHECK(part.in() == 5);
  CHECK(part.stored(0, 1) == layer.output.stored(5, 1));
  CHECK(part.bias.empty());
  const Linear torch_head = torch.layer(0).key.outputs(4, 4);
  CHECK(torch_head.in_out_double()(3, 1) == torch.layer(0).key.stored(5, 3));
}

TEST_CASE("weights are borrowed where they are float32, and converted once elsewhere") {
  const MemoryModel plain = read("llama-f16");
  const Model half = bound(plain);
  const attnctl::LayerWeights& layer = half.layer(0);
  CHECK(&half.layer(0) == &layer);
  const auto& stored = plain.tensors.at("model.layers.0.self_attn.q_proj.weight");
  REQUIRE(stored.dtype == DType::f16);
  std::uint16_t bits = 0;
  std::memcpy(&bits, stored.bytes.data() + 2UL * 7, 2);
  CHECK(layer.query.stored.data[7] == attnctl::float_from_f16(bits));

  const auto source = read("llama");
  const Model model = bound(source);
  const auto& weights = *model.source().weights;
  const auto view = model.source().weights->tensor(weights.find("model.layers.1.mlp.up_proj.weight"));
  CHECK(static_cast<const void*>(model.layer(1).up.stored.data) ==
        static_cast<const void*>(view.bytes.data()));

  const Model albert = bound(read("albert"));  // 0 0 0 1 1
  CHECK(&albert.layer(0) == &albert.layer(2));
  CHECK(&albert.layer(0) != &albert.layer(3));
  CHECK(albert.shared_with(2) == 0);
  CHECK(albert.shared_with(4) == 3);
  CHECK(model.shared_with(1) == 1);
}

TEST_CASE("a weight that is not finite is a warning with its tensor and first index") {
  struct Row {
    const char* why;
    float value;
    const char* shown;
  };
  for (const Row& row : {Row{"NaN", std::numeric_limits<float>::quiet_NaN(), "nan at [2, 5]"},
                         Row{"infinity", -std::numeric_limits<float>::infinity(), "-inf at [2, 5]"}}) {
    CAPTURE(std::string(row.why));
    MemoryModel model = read("llama");
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
    MemoryModel model = read("llama");
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

TEST_CASE("the real models bind, where they are at hand") {
  struct Row {
    const char* name;
    const char* family;
    std::uint64_t parameters;
    std::size_t unused;
  };
  for (const Row& row :
       {Row{"stories260K", "llama", 260'032, 0}, Row{"stories15M", "llama", 15'191'712, 0},
        Row{"rxnmapper-albert", "albert", 811'215, 3}}) {  // a pooler, and the decoder's bias twice
    const auto path = std::filesystem::path(ATTNCTL_SHARED_DIR) / "models" / row.name;
    if (!std::filesystem::exists(path)) continue;
    CAPTURE(path.string());
    attnctl::Warnings warnings;
    const Model model = attnctl::test::bind_model(path, warnings);
    CHECK(model.config().family == row.family);
    CHECK(model.parameters() == row.parameters);
    CHECK(model.unused_tensors() == row.unused);
    for (std::size_t i = 0; i < model.config().layers.size(); ++i) CHECK(model.layer(i).query.present());
    CHECK(warnings.list().empty());
  }
}
