#include <cstddef>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "model/accounting/accounting.hpp"
#include "support/golden.hpp"
#include "support/memory_checkpoint.hpp"

using attnctl::count_parameters;

namespace {

/// Number of values in a checkpoint's tensors by their use.
struct Stored {
  std::uint64_t parameters = 0, tied = 0, buffers = 0, unused = 0;
  bool operator==(const Stored&) const = default;
};

Stored stored_in(const attnctl::Model& model) {
  Stored stored;
  const auto tensors = model.source().weights->tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const attnctl::TensorUse& use = model.tensor_uses()[i];
    std::uint64_t values = 1;
    for (const std::size_t extent : tensors[i].shape) values *= extent;
    using Role = attnctl::TensorRole;
    (use.role == Role::parameter ? stored.parameters
     : use.role == Role::tied    ? stored.tied
     : use.role == Role::buffer  ? stored.buffers
                                 : stored.unused) += values;
    CHECK((use.role == Role::tied) == (use.copy_of != attnctl::Checkpoint::npos));
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
    const attnctl::Model model = attnctl::test::bind_model(path, warnings);
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
  const attnctl::Model copied = model.bound();
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
  const attnctl::Model other = model.bound();
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
