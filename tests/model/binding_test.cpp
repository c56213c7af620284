#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "model/accounting/accounting.hpp"
#include "model/families/family.hpp"
#include "model/model.hpp"
#include "support/golden.hpp"
#include "support/memory_checkpoint.hpp"
#include "support/refusal.hpp"

using attnctl::model::count_parameters;

namespace {

using attnctl::DType;
using attnctl::Status;
using attnctl::model::Linear;
using attnctl::model::Model;
using attnctl::test::MemoryModel;

std::vector<double> values(const Linear& linear) {
  const auto matrix = linear.in_out_double();
  std::vector<double> all(matrix.values().begin(), matrix.values().end());
  all.insert(all.end(), linear.bias.begin(), linear.bias.end());
  return all;
}

/// Returns all weights of a layer in one list.
std::vector<double> weights_of(const Model& model, std::size_t index) {
  const auto lease = model.layer(index);
  const attnctl::model::LayerWeights& layer = *lease;
  std::vector<double> all;
  for (const Linear* linear : {&layer.query, &layer.key, &layer.value, &layer.output, &layer.mlp.up,
                               &layer.mlp.gate, &layer.mlp.down}) {
    const auto some = values(*linear);
    all.insert(all.end(), some.begin(), some.end());
  }
  for (const attnctl::model::NormWeights* norm : {&layer.attention_norm, &layer.mlp_norm}) {
    all.insert(all.end(), norm->gain.begin(), norm->gain.end());
    all.insert(all.end(), norm->bias.begin(), norm->bias.end());
  }
  return all;
}

}  // namespace

TEST_CASE("a checkpoint binds equally with and without its prefix and with old norm names") {
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
    const MemoryModel as_is = MemoryModel::golden(row.model);
    MemoryModel renamed = as_is;
    renamed.rename(row.from, row.to);
    if (std::string(row.model) == "bert-headless") renamed.rename("encoder.", "bert.encoder.");
    REQUIRE(renamed.tensors.size() == as_is.tensors.size());
    const Model a = as_is.bound();
    const Model b = renamed.bound();
    CHECK(a.parameters() == b.parameters());
    CHECK(a.unused_tensors() == b.unused_tensors());
    CHECK(a.config().head.present == b.config().head.present);
    for (std::size_t i = 0; i < a.config().layers.size(); ++i) CHECK(weights_of(a, i) == weights_of(b, i));
  }
}

TEST_CASE("missing, misshapen and unusable tensors are reported by name") {
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
       [](MemoryModel& m) {  // all at once, a tensor of three projections once
         m.tensors.erase("transformer.h.0.attn.c_attn.weight");
         m.tensors.erase("transformer.ln_f.bias");
         m.tensors["transformer.h.1.ln_1.weight"] = attnctl::test::ramp({14});
         m.tensors["transformer.h.7.ln_1.weight"] = attnctl::test::ramp({15});
       },
       {"2 tensors are missing that config.json needs: transformer.h.0.attn.c_attn.weight, "
        "transformer.ln_f.bias; ",
        "transformer.h.1.ln_1.weight\": got shape [14], need [15]", "layer 7 is stored"}},
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
    MemoryModel changed = MemoryModel::golden(row.model);
    row.change(changed);
    attnctl::test::check_refusal([&] { static_cast<void>(changed.bound()); }, Status::bad_input, row.parts);
  }
}

TEST_CASE("unused tensors are counted, known buffers are not") {
  MemoryModel model = MemoryModel::golden("llama");
  CHECK(model.bound().unused_tensors() == 0);
  model.tensors["model.rotary_emb.inv_freq"] = attnctl::test::ramp({5});
  model.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = attnctl::test::ramp({5});
  model.tensors["position_ids"] = attnctl::test::zeros(DType::i64, {1, 17});
  CHECK(model.bound().unused_tensors() == 0);
  model.tensors["model.mtp.0.mlp.up_proj.weight"] = attnctl::test::ramp({2, 2});
  model.tensors["xposition_ids"] = attnctl::test::ramp({2});
  CHECK(model.bound().unused_tensors() == 2);
  model.tensors["model.layers.7.mlp.up_proj.weight"] = attnctl::test::ramp({2, 2});
  attnctl::test::check_refusal([&] { static_cast<void>(model.bound()); }, Status::bad_input,
                               {"layer 7 is stored", "the number of layers in the configuration is 2"});
  CHECK(MemoryModel::golden("bert").bound().unused_tensors() ==
        4);  // a pooler and a next-sentence head, each W and b
  CHECK(MemoryModel::golden("gpt2-inverse-layer").bound().unused_tensors() ==
        0);  // attn.bias, attn.masked_bias
}

TEST_CASE("the head is the stored matrix, otherwise the embedding") {
  const Model own = MemoryModel::golden("llama").bound();
  CHECK_FALSE(own.config().head.tied);
  MemoryModel without = MemoryModel::golden("llama");
  without.tensors.erase("lm_head.weight");
  attnctl::Warnings warnings;
  const Model tied = Model::bind(without.source(), warnings);
  CHECK(tied.config().head.tied);
  REQUIRE(warnings.list().size() == 1);  // the configuration says that they are not tied
  CHECK(warnings.list()[0].code == "head_from_embedding");
  const auto head = tied.head();
  const Linear& decoder = head->decoder;
  CHECK(decoder.in() == 24);
  CHECK(decoder.out() == 39);
  std::vector<float> row(24);
  tied.embedding()->token.row(38, row);
  CHECK(std::ranges::equal(row, decoder.stored.row(38)));
  CHECK(own.parameters() == tied.parameters() + 24UL * 39);

  without.rename("model.", "");  // only the body was saved, and the embedding was never its head
  CHECK_FALSE(without.bound().config().head.present);
  without.config["tie_word_embeddings"] = true;
  CHECK(without.bound().config().head.present);

  MemoryModel tower = MemoryModel::golden("llava-tower");
  tower.tensors.erase("language_model.lm_head.weight");
  attnctl::Warnings of_tower;
  static_cast<void>(Model::bind(tower.source(), of_tower));
  REQUIRE(of_tower.list().size() == 1);
  CHECK(of_tower.list()[0].message.find("/text_config/tie_word_embeddings is false") != std::string::npos);

  const Model albert = MemoryModel::golden("albert").bound();
  CHECK(albert.head()->transform.in() == 15);
  CHECK(albert.head()->transform.out() == 10);
  CHECK(albert.head()->decoder.bias.size() == 41);
  CHECK_FALSE(MemoryModel::golden("albert-headless").bound().config().head.present);

  MemoryModel both = MemoryModel::golden("bert");  // decoder.bias is what the decoder adds
  both.tensors["cls.predictions.decoder.bias"] = attnctl::test::ramp({37});
  CHECK(both.bound().head()->decoder.bias[1] == 0.02F);
  CHECK(both.bound().unused_tensors() == 5);
}

TEST_CASE("the real models bind, if present") {
  struct Row {
    const char* name;
    const char* family;
    std::uint64_t parameters;
    std::size_t unused;
  };
  for (const Row& row :
       {Row{"stories260K", "llama", 260'032, 0}, Row{"stories15M", "llama", 15'191'712, 0},
        Row{"rxnmapper-albert", "albert", 735'567, 2}}) {  // a pooler; the tied decoder is stored twice
    const auto path = std::filesystem::path(ATTNCTL_SHARED_DIR) / "models" / row.name;
    if (!std::filesystem::exists(path)) continue;
    CAPTURE(path.string());
    attnctl::Warnings warnings;
    const Model model = attnctl::test::bind_model(path, warnings);
    CHECK(model.config().family == row.family);
    CHECK(model.parameters() == row.parameters);
    CHECK(model.unused_tensors() == row.unused);
    for (std::size_t i = 0; i < model.config().layers.size(); ++i) CHECK(model.layer(i)->query.present());
    CHECK(warnings.list().empty());
  }
}

namespace {

/// Number of values in a checkpoint's tensors by their use.
struct Stored {
  std::uint64_t parameters = 0, tied = 0, buffers = 0, unused = 0;
  bool operator==(const Stored&) const = default;
};

Stored stored_in(const attnctl::model::Model& model) {
  Stored stored;
  const auto tensors = model.source().weights->tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const attnctl::model::TensorUse& use = model.tensor_uses()[i];
    std::uint64_t values = 1;
    for (const std::size_t extent : tensors[i].shape) values *= extent;
    using Role = attnctl::model::TensorRole;
    (use.role == Role::parameter ? stored.parameters
     : use.role == Role::tied    ? stored.tied
     : use.role == Role::buffer  ? stored.buffers
                                 : stored.unused) += values;
    CHECK((use.role == Role::tied) == (use.copy_of != attnctl::checkpoint::Checkpoint::npos));
  }
  return stored;
}

TEST_CASE("every value of a file is a parameter, a tied copy, a buffer or unused") {
  struct Row {
    const char* path;
    Stored want;
  };
  const std::string shared = ATTNCTL_SHARED_DIR "/models/";
  std::size_t found = 0;
  // Figures of safetensors and transformers: values in the file; parameters of the model's class.
  for (const Row& row :
       {Row{"data/tiny-bert", {1'024'768, 0, 0, 0}}, Row{"data/tiny-llama", {1'115'264, 0, 0, 0}},
        Row{"data/attention-demo.json", {1376, 0, 0, 0}}, Row{"tests/golden/bert", {8933, 0, 11, 650}},
        Row{"tests/golden/bert-headless", {6240, 0, 0, 420}}, Row{"tests/golden/albert", {4628, 0, 0, 0}},
        Row{"tests/golden/albert-headless", {3360, 0, 0, 156}},
        Row{"tests/golden/gpt2-inverse-layer", {4461, 0, 432, 0}},
        Row{"tests/golden/llama-old", {3100, 0, 5, 0}}, Row{"tests/golden/llama-f16", {2808, 0, 0, 0}},
        Row{"stories260K", {260'032, 0, 0, 0}}, Row{"stories15M", {15'191'712, 0, 0, 0}},
        Row{"rxnmapper-albert", {735'567, 75'648 + 591, 0, 65'792}}}) {
    const std::string name = row.path;
    const bool bundled = name.find('/') != std::string::npos;
    const std::string path = bundled ? ATTNCTL_SOURCE_DIR "/" + name : shared + name;
    if (!bundled && !std::filesystem::exists(path)) continue;
    CAPTURE(path);
    attnctl::Warnings warnings;
    const attnctl::model::Model model = attnctl::test::bind_model(path, warnings);
    CHECK(stored_in(model) == row.want);
    CHECK(model.parameters() == row.want.parameters);
    CHECK(count_parameters(model.config()).all == row.want.parameters);
    ++found;
  }
  CHECK(found >= 10);
}

TEST_CASE("a stored output matrix is a tied copy only if it equals the embedding") {
  using attnctl::test::MemoryModel;
  MemoryModel model = MemoryModel::golden("gpt2");
  const std::uint64_t plain = model.bound().parameters();
  model.tensors["lm_head.weight"] = model.tensors.at("transformer.wte.weight");
  const attnctl::model::Model copied = model.bound();
  CHECK(copied.parameters() == plain);
  CHECK(copied.config().head.tied);
  const std::uint64_t embedding =
      copied.config().embedding.vocabulary * static_cast<std::uint64_t>(copied.config().d_model);
  CHECK(stored_in(copied).tied == embedding);
  const auto tensors = copied.source().weights->tensors();
  const auto& use = copied.tensor_uses()[copied.source().weights->find("lm_head.weight")];
  REQUIRE(use.copy_of < tensors.size());
  CHECK(tensors[use.copy_of].name == "transformer.wte.weight");

  model.tensors["lm_head.weight"].bytes.back() ^= std::byte{1};  // one bit of the last value
  const attnctl::model::Model other = model.bound();
  CHECK(other.parameters() == plain + embedding);
  CHECK_FALSE(other.config().head.tied);
  CHECK(stored_in(other).tied == 0);

  // A bias under both of its names, and one that differs.
  MemoryModel bert = MemoryModel::golden("bert");
  bert.tensors["cls.predictions.decoder.bias"] = bert.tensors.at("cls.predictions.bias");
  CHECK(stored_in(bert.bound()) == Stored{8933, 37, 11, 650});
  bert.tensors["cls.predictions.decoder.bias"] = attnctl::test::ramp({37});
  CHECK(stored_in(bert.bound()) == Stored{8933, 0, 11, 650 + 37});
}

}  // namespace
