#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.hpp"
#include "support/bytes.hpp"
#include "support/capture.hpp"
#include "support/command_refusal.hpp"
#include "support/gguf_writer.hpp"
#include "support/golden.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;
using namespace attnctl::checkpoint;
using namespace attnctl::test;

namespace {

const std::filesystem::path kGolden = std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden";

std::vector<float> values_of(const TensorView& view) {
  std::vector<float> values(view.bytes.size() / size_of(view.dtype));
  convert(view.dtype, view.bytes, std::span(values));
  return values;
}

/// Compares bits: 0 differs from -0, and a NaN equals itself.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

/// Checks that `got` has every tensor of `want` with the same shape and values, before and after release().
void check_same_tensors(Checkpoint& got, Checkpoint& want) {
  CHECK(got.tensors().size() == want.tensors().size());
  for (std::size_t i = 0; i < want.tensors().size(); ++i) {
    const TensorInfo& info = want.tensors()[i];
    CAPTURE(info.name);
    const std::size_t found = got.find(info.name);
    REQUIRE(found != Checkpoint::npos);
    CHECK(got.tensors()[found].shape == info.shape);
    CHECK(got.tensors()[found].dtype == info.dtype);
    for (int time = 0; time < 2; ++time) {
      const TensorView view = got.tensor(found);
      CHECK(view.shape == info.shape);
      CHECK(same_bits(values_of(view), values_of(want.tensor(i))));
      got.release(found);
    }
  }
}

model::Model bind(const std::filesystem::path& path,
                  const std::optional<std::filesystem::path>& config = {}) {
  Warnings warnings;
  model::Model model = model::Model::bind(open_model_source(path.string(), config, warnings), warnings);
  CHECK(warnings.list().empty());
  return model;
}

void check_same_pass(const model::Model& got, const model::Model& want, const input::Batch& batch) {
  const auto ours = capture_all(got, batch);
  const auto theirs = capture_all(want, batch);
  REQUIRE(ours.size() == theirs.size());
  for (std::size_t s = 0; s < ours.size(); ++s) {
    REQUIRE(ours[s].heads.size() == theirs[s].heads.size());
    for (const auto& [id, head] : theirs[s].heads)
      CHECK(std::ranges::equal(ours[s].heads.at(id).pattern.values(), head.pattern.values()));
    CHECK(std::ranges::equal(ours[s].logits.values(), theirs[s].logits.values()));
    CHECK(!theirs[s].logits.values().empty());
  }
}

}  // namespace

TEST_CASE("every GGUF type is decoded as by the format's own library") {
  Warnings warnings;
  const auto got = open_checkpoint(kGolden / "gguf/types.gguf", warnings);
  const auto want = open_checkpoint(kGolden / "gguf/types.npz", warnings);
  CHECK(want->tensors().size() == 12);
  CHECK(got->tensors().size() == 12);
  for (std::size_t i = 0; i < want->tensors().size(); ++i) {
    CAPTURE(want->tensors()[i].name);
    const std::size_t found = got->find(want->tensors()[i].name);
    REQUIRE(found != Checkpoint::npos);
    CHECK(got->tensors()[found].shape == want->tensors()[i].shape);
    CHECK(same_bits(values_of(got->tensor(found)), values_of(want->tensor(i))));
  }
}

TEST_CASE("a GGUF model holds the tensors of the safetensors file that it was converted from") {
  struct Row {
    const char* gguf;
    const char* original;
  };
  for (const Row& row :
       {Row{"llama-f32.gguf", "llama/model.safetensors"},
        Row{"llama-f16.gguf", "llama-f16/model.safetensors"}, Row{"gpt2-f32.gguf", "gpt2/model.safetensors"},
        Row{"qwen2-f32.gguf", "qwen2/model.safetensors"}, Row{"llama-q8_0.gguf", "gguf/llama-q8_0.npz"}}) {
    CAPTURE(row.gguf);
    Warnings warnings;
    const auto got = open_checkpoint(kGolden / "gguf" / row.gguf, warnings);
    check_same_tensors(*got, *open_checkpoint(kGolden / row.original, warnings));
  }
}

TEST_CASE("a GGUF model without config.json gives the patterns and logits of its original") {
  struct Row {
    const char* gguf;
    const char* original;
  };
  for (const Row& row :
       {Row{"llama-f32.gguf", "llama"}, Row{"gpt2-f32.gguf", "gpt2"},
        Row{"llama-linear.gguf", "llama-linear"}, Row{"llama-yarn.gguf", "llama-yarn-flat"}}) {
    CAPTURE(row.gguf);
    const Golden golden(kGolden / row.original);
    input::Batch batch;
    for (std::size_t i = 0; i < golden.inputs(); ++i) batch.sequences.push_back(golden.sequence(i));
    check_same_pass(bind(kGolden / "gguf" / row.gguf), bind(kGolden / row.original), batch);
  }
}

TEST_CASE("a GGUF model of qwen2 keeps the order of rotary heads and has no windows") {
  const Golden golden(kGolden / "qwen2");
  auto config = nlohmann::ordered_json::parse(slurp(kGolden / "qwen2/config.json"));
  config["use_sliding_window"] = false;
  config.erase("layer_types");
  const TempDir folder;
  const auto plain = folder.write("config.json", config.dump());
  const input::Batch batch{{golden.sequence(0), golden.sequence(1)}};
  check_same_pass(bind(kGolden / "gguf/qwen2-f32.gguf"), bind(kGolden / "qwen2", plain), batch);
}

TEST_CASE("a GGUF model of gemma2 stores gains plus 1, and its scale follows from the head width") {
  const Golden golden(kGolden / "gemma2");
  auto config = nlohmann::ordered_json::parse(slurp(kGolden / "gemma2/config.json"));
  config["query_pre_attn_scalar"] = config["head_dim"];
  const TempDir folder;
  const auto own = folder.write("config.json", config.dump());
  const input::Batch batch{{golden.sequence(0), golden.sequence(1)}};
  check_same_pass(bind(kGolden / "gguf/gemma2-f16.gguf"), bind(kGolden / "gemma2", own), batch);
}

TEST_CASE("--config replaces the configuration in a GGUF model's metadata") {
  const auto file = kGolden / "gguf/llama-f16.gguf";
  const auto original = kGolden / "llama-f16";
  const Golden golden(original);
  const input::Batch batch{{golden.sequence(0)}};
  check_same_pass(bind(file, original / "config.json"), bind(original), batch);
  Warnings warnings;
  const ModelSource source = open_model_source((kGolden / "gguf/llama-f32.gguf").string(), {}, warnings);
  CHECK(source.config_path == kGolden / "gguf/llama-f32.gguf");
  CHECK(source.config.dump() ==
        R"({"model_type":"llama","hidden_size":24,"num_hidden_layers":2,"num_attention_heads":6,)"
        R"("num_key_value_heads":2,"head_dim":10,"intermediate_size":22,"max_position_embeddings":17,)"
        R"("rms_norm_eps":9.999999747378752e-06,"rope_theta":10000.0,"vocab_size":39,"attention_bias":true,)"
        R"("mlp_bias":true,"tie_word_embeddings":false,"bos_token_id":1,"eos_token_id":2})");
}

TEST_CASE("rotary factors of a GGUF model equal Llama 3's scaling up to rounding") {
  const Golden golden(kGolden / "llama-llama3");
  const input::Batch batch{{golden.sequence(0)}};
  const auto ours = capture_all(bind(kGolden / "gguf/llama-llama3.gguf"), batch);
  const auto theirs = capture_all(bind(kGolden / "llama-llama3"), batch);
  for (const auto& [id, head] : theirs[0].heads) {
    const auto got = ours[0].heads.at(id).pattern.values();
    REQUIRE(got.size() == head.pattern.values().size());
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(std::abs(got[i] - head.pattern.values()[i]) <= golden.array("bound_pattern").values[0]);
  }
}

namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kQ4 = 2;

/// A small file that can be opened.
GgufParts good() {
  GgufParts parts;
  parts.fields = {gguf_text("general.architecture", "llama"),
                  gguf_u32("llama.embedding_length", 4),
                  gguf_u32("llama.block_count", 1),
                  gguf_u32("llama.attention.head_count", 2),
                  gguf_u32("llama.feed_forward_length", 4),
                  gguf_u32("llama.context_length", 8),
                  gguf_f32("llama.attention.layer_norm_rms_epsilon", 1e-5F)};
  parts.tensors = {{"token_embd.weight", {4, 3}, 0, 0}, {"output_norm.weight", {4}, 0, 64}};
  parts.data = std::string(96, '\0');
  return parts;
}

/// Returns good() with a field added, or replaced if its key exists.
std::string with(const GgufField& field) {
  GgufParts parts = good();
  std::erase_if(parts.fields, [&](const GgufField& other) { return other.key == field.key; });
  parts.fields.push_back(field);
  return parts.bytes();
}

std::string without(std::string_view key) {
  GgufParts parts = good();
  std::erase_if(parts.fields, [&](const GgufField& other) { return other.key == key; });
  return parts.bytes();
}

/// Returns good() with a tensor added.
std::string with(const GgufEntry& tensor) {
  GgufParts parts = good();
  parts.tensors.push_back(tensor);
  return parts.bytes();
}

std::string twice(const GgufField& field) {
  GgufParts parts = good();
  parts.fields.push_back(field);
  return parts.bytes();
}

std::string version(std::uint32_t number) {
  GgufParts parts = good();
  parts.version = number;
  return parts.bytes();
}

/// Returns the magic, the version, the counts and `rest`.
std::string counts(std::uint64_t tensors, std::uint64_t fields, std::string_view rest = {}) {
  return "GGUF" + little_endian(3, 4) + little_endian(tensors, 8) + little_endian(fields, 8) +
         std::string(rest);
}

GgufField array(std::uint32_t type, std::uint64_t count, std::string_view bytes) {
  return {"a", 9, little_endian(type, 4) + little_endian(count, 8) + std::string(bytes)};
}

std::string zero_factor() {
  GgufParts parts = good();
  parts.tensors.push_back({"rope_freqs.weight", {1}, 0, 96});
  parts.data.resize(128);
  return parts.bytes();
}

/// Returns an array of strings.
GgufField texts(std::string_view key, const std::vector<std::string_view>& values) {
  std::string bytes = little_endian(8, 4) + little_endian(values.size(), 8);
  for (const std::string_view value : values) bytes += gguf_string(value);
  return {std::string(key), 9, bytes};
}

/// Returns good() with a tokenizer of these tokens and one more field.
std::string with_tokenizer(const std::vector<std::string_view>& tokens, const GgufField& field,
                           std::string_view model = "llama") {
  GgufParts parts = good();
  parts.fields.push_back(gguf_text("tokenizer.ggml.model", model));
  parts.fields.push_back(texts("tokenizer.ggml.tokens", tokens));
  parts.fields.push_back(field);
  return parts.bytes();
}

GgufField types(std::string_view bytes, std::uint32_t type = 5) {
  const std::size_t count = bytes.size() / 4;
  return {"tokenizer.ggml.token_type", 9,
          little_endian(type, 4) + little_endian(count, 8) + std::string(bytes)};
}

GgufField scores(const std::vector<float>& values) {
  return {"tokenizer.ggml.scores", 9,
          little_endian(6, 4) + little_endian(values.size(), 8) + bytes_of<float>(values)};
}

/// Returns a file with rotary factors and this type of rotary scaling.
std::string factors_and(std::string_view type) {
  GgufParts parts = good();
  parts.fields.push_back(gguf_text("llama.rope.scaling.type", type));
  parts.tensors.push_back({"rope_freqs.weight", {0}, 0, 96});
  return parts.bytes();
}

/// Returns a file of yarn scaling with one more field.
std::string yarn_with(const GgufField& field) {
  GgufParts parts = good();
  parts.fields.push_back(gguf_text("llama.rope.scaling.type", "yarn"));
  parts.fields.push_back(field);
  return parts.bytes();
}

/// A file of Gemma 2 with this number of layers.
GgufParts gemma2(std::uint32_t layers) {
  GgufParts parts;
  parts.fields = {gguf_text("general.architecture", "gemma2"),
                  gguf_u32("gemma2.embedding_length", 12),
                  gguf_u32("gemma2.block_count", layers),
                  gguf_u32("gemma2.attention.head_count", 2),
                  gguf_u32("gemma2.attention.head_count_kv", 2),
                  gguf_u32("gemma2.attention.key_length", 4),
                  gguf_u32("gemma2.feed_forward_length", 4),
                  gguf_u32("gemma2.context_length", 8),
                  gguf_u32("gemma2.attention.sliding_window", 4),
                  gguf_f32("gemma2.attention.layer_norm_rms_epsilon", 1e-5F)};
  for (std::uint32_t i = 0; i < layers; ++i)
    parts.tensors.push_back({"blk." + std::to_string(i) + ".ffn_up.weight", {0}, 0, 0});
  return parts;
}

std::string quantised_norm() {
  GgufParts parts = gemma2(1);
  parts.tensors.push_back({"output_norm.weight", {0}, kQ4, 0});
  return parts.bytes();
}

struct Row {
  int kind;  // number in the list of bad inputs; -1: not in it
  std::string_view what;
  std::string bytes;
  std::vector<std::string_view> parts;  // of the message, besides the file's name
};

std::vector<Row> bad_headers() {
  return {
      {42, "empty file", "", {"magic @byte 0", "got 0 bytes"}},
      {42, "bad magic", "GGML" + good().bytes().substr(4), {"magic @byte 0", "\"GGML\"", "\"GGUF\""}},
      {42, "another format", "PK\x03\x04 0000", {"ZIP archive"}},
      {43, "version 0", version(0), {"version @byte 4", "unsupported 0;"}},
      {43, "version 1", version(1), {"unsupported 1;"}},
      {43, "future version", version(4), {"unsupported 4;", "2 or 3"}},
      {43, "byte-swapped version", version(0x03000000), {"unsupported", "big-endian"}},
      {44, "n_tensors -1", counts(kMost, 0), {"tensor count @byte 8", "18446744073709551615"}},
      {44,
       "n_tensors over the file",
       counts(3, 0, std::string(50, '\0')),
       {"tensor count @byte 8", "got a count of 3", "was it downloaded whole?"}},
      {45, "n_kv -1", counts(0, kMost), {"metadata count @byte 16", "18446744073709551615"}},
      {46,
       "key length -1",
       counts(0, 1, little_endian(kMost, 8) + std::string(64, 'k')),
       {"metadata key @byte 32", "need 18446744073709551615"}},
      {47, "empty key", with({"", 0, "1"}), {"metadata key", "got 0 bytes"}},
      {47, "long key", with({std::string(65'536, 'k'), 0, "1"}), {"metadata key", "got 65536 bytes"}},
      {48, "duplicate key", twice(gguf_u32("llama.block_count", 1)), {"\"llama.block_count\"", "twice"}},
      {49, "type 13", with({"a", 13, "12345678"}), {"metadata \"a\"", "unsupported type 13"}},
      {49, "array of type 13", with(array(13, 0, "")), {"unsupported type 13"}},
      {49, "array of arrays", with(array(9, 1, array(0, 1, "1").bytes)), {"unsupported array of arrays"}},
      {50,
       "array count 2^63",
       counts(0, 1, gguf_string("a") + little_endian(9, 4) + array(0, 1ULL << 63, "").bytes),
       {"metadata \"a\"", "got a count of 9223372036854775808"}},
      {50, "array of 2^61 numbers of 8 bytes", with(array(10, 1ULL << 61, "12345678")), {"got a count of"}},
      {50, "array of strings past the end", with(array(8, 3, gguf_string("x"))), {"metadata \"a\""}},
      {51,
       "string past the end",
       with({"a", 8, little_endian(100'000, 8) + "x"}),
       {"metadata \"a\"", "need 100000"}},
      {52,
       "alignment 0",
       with(gguf_u32("general.alignment", 0)),
       {"general.alignment", "got 0", "power of two"}},
      {52, "alignment 4", with(gguf_u32("general.alignment", 4)), {"got 4", "from 8 to"}},
      {52,
       "alignment of 16 bits below 0",
       with({"general.alignment", 3, little_endian(0xFFE0U, 2)}),
       {"got -32"}},
      {52,
       "an alignment of 64 bits",
       with({"general.alignment", 10, little_endian(1ULL << 63U, 8)}),
       {"got 9223372036854775808"}},
      {52, "alignment 13", with(gguf_u32("general.alignment", 13)), {"got 13"}},
      {52, "alignment 2^31", with(gguf_u32("general.alignment", 1U << 31)), {"got 2147483648"}},
      {52,
       "alignment that is a string",
       with(gguf_text("general.alignment", "32")),
       {"got \"32\"", "integer"}},
      {52, "negative alignment", with({"general.alignment", 5, little_endian(0xFFFFFFE0U, 4)}), {"got -32"}},
  };
}

std::vector<Row> bad_tensors() {
  const std::uint64_t int64_max = kMost / 2;
  return {
      {53, "5 dimensions", with({"x", {1, 1, 1, 1, 1}, 0, 96}), {"tensor \"x\"", "got 5 dimensions"}},
      {53,
       "2^32-1 dimensions",
       counts(1, 0, gguf_string("x") + little_endian(kMost, 4) + std::string(64, '\0')),
       {"got 4294967295 dimensions"}},
      {55, "negative dimension", with({"x", {kMost}, 0, 96}), {"got dimension -1"}},
      {55, "0 and a negative extent", with({"x", {0, kMost}, 0, 96}), {"got dimension -1"}},
      {56, "(INT64_MAX, 2)", with({"x", {int64_max, 2}, 0, 96}), {"tensor \"x\"", "does not fit 64 bits"}},
      {57, "byte size wraps", with({"x", {1ULL << 62}, 0, 96}), {"does not fit 64 bits"}},
      {57, "product wraps to 0", with({"x", {1ULL << 32, 1ULL << 32}, 0, 96}), {"does not fit 64 bits"}},
      {57,
       "0 and a product that wraps",
       with({"x", {1ULL << 32, 1ULL << 32, 0}, 0, 96}),
       {"does not fit 64 bits"}},
      {57, "decoded size wraps", with({"x", {1ULL << 62}, kQ4, 96}), {"does not fit 64 bits"}},
      {58,
       "padding wraps",
       with({"x", {4}, 0, kMost - 31}),
       {"tensor \"x\"", "got offset 18446744073709551584"}},
      {59,
       "sum wraps",
       with({"x", {1ULL << 61}, 0, 1ULL << 63}),
       {"tensor \"x\"", "got offset 9223372036854775808"}},
      {60,
       "row of half a block",
       with({"x", {16, 2}, kQ4, 96}),
       {"rows of 16 values", "multiple of 32", "Q4_0"}},
      {60, "row of a K type", with({"x", {32}, 14, 96}), {"multiple of 256", "Q6_K"}},
      {61, "removed type", with({"x", {32}, 4, 96}), {"tensor \"x\"", "unsupported type Q4_2", "Q4_K"}},
      {61, "known unsupported type", with({"x", {32}, 10, 96}), {"unsupported type Q2_K"}},
      {61, "unknown type", with({"x", {32}, 99, 96}), {"unsupported type number 99"}},
      {62, "offset off the alignment", with({"x", {1}, 0, 97}), {"got offset 97", "alignment 32"}},
      {62, "overlap", with({"x", {4}, 0, 32}), {"overlaps"}},
      {62, "the same place", with({"x", {4}, 0, 64}), {"overlaps"}},
      {62, "offset at the end", with({"x", {4}, 0, 96}), {"got offset 96 and 16 bytes", "downloaded whole"}},
      {63, "duplicate tensor", with({"output_norm.weight", {0}, 0, 96}), {"\"output_norm.weight\"", "twice"}},
      {63,
       "one tensor under two names",
       with({"model.norm.weight", {0}, 0, 96}),
       {"\"output_norm.weight\"", "\"model.norm.weight\"", "need only one of them"}},
      {63, "tensor without a name", with({"", {0}, 0, 96}), {"tensor name", "empty"}},
      {29,
       "a name with ESC and NUL",
       with({std::string("\x1b[31m\0../x", 10), {1}, 99, 96}),
       {"\"\\x1b[31m\\x00../x\""}},
      {-1,
       "query rows that are not pairs",
       with({"blk.0.attn_q.weight", {0, 5}, 0, 96}),
       {"\"blk.0.attn_q.weight\"", "2 heads"}},
      {-1,
       "queries of three dimensions",
       with({"blk.0.attn_q.weight", {0, 4, 1}, 0, 96}),
       {"one or two dimensions"}},
      {-1,
       "a scalar for queries",
       with({"blk.0.attn_q.weight", {}, 0, 96}),
       {"tensor \"blk.0.attn_q.weight\""}},
  };
}

std::vector<Row> bad_models() {
  return {
      {-1, "no architecture", without("general.architecture"), {"\"general.architecture\"", "missing"}},
      {93,
       "unknown architecture",
       with(gguf_text("general.architecture", "mamba")),
       {"unsupported \"mamba\"", "gemma2, gpt2, llama, qwen2"}},
      {-1,
       "architecture that is a number",
       with(gguf_u32("general.architecture", 1)),
       {"got 1, need a string"}},
      {-1, "no layers", without("llama.block_count"), {"\"llama.block_count\"", "missing"}},
      {64,
       "head_count 0",
       with(gguf_u32("llama.attention.head_count", 0)),
       {"\"llama.attention.head_count\"", "got 0"}},
      {64,
       "head_count by layer",
       with({"llama.attention.head_count", 9, array(4, 1, "1234").bytes}),
       {"got an array of 1"}},
      {64, "head_count_kv 0", with(gguf_u32("llama.attention.head_count_kv", 0)), {"got 0"}},
      {65,
       "block_count 2^31",
       with(gguf_u32("llama.block_count", 1U << 31)),
       {"\"llama.block_count\"", "got 2147483648"}},
      {65, "block_count over the tensors", with(gguf_u32("llama.block_count", 3)), {"got 3", "at most 2"}},
      {91, "eps 0", with(gguf_f32("llama.attention.layer_norm_rms_epsilon", 0)), {"got 0", "above 0"}},
      {91,
       "freq_base NaN",
       with(gguf_f32("llama.rope.freq_base", std::numeric_limits<float>::quiet_NaN())),
       {"got nan"}},
      {-1, "experts", with(gguf_u32("llama.expert_count", 8)), {"\"llama.expert_count\"", "unsupported"}},
      {-1, "soft-cap", with(gguf_f32("llama.attn_logit_softcapping", 50)), {"got 50", "unsupported"}},
      {-1,
       "values of another width",
       with(gguf_u32("llama.attention.value_length", 3)),
       {"value_length", "unsupported"}},
      {-1,
       "rotary in part",
       with(gguf_u32("llama.rope.dimension_count", 1)),
       {"dimension_count", "got 1", "unsupported"}},
      {-1,
       "unknown scaling",
       with(gguf_text("llama.rope.scaling.type", "spiral")),
       {"unsupported \"spiral\"", "none, linear, yarn"}},
      {-1,
       "one of several files",
       with({"split.count", 2, little_endian(3, 2)}),
       {"split.count", "unsupported", "3 files"}},
      {-1,
       "rotary factors in Q4_0",
       with({"rope_freqs.weight", {0}, kQ4, 96}),
       {"rope_freqs.weight", "Q4_0"}},
      {-1, "a rotary factor of 0", zero_factor(), {"rope_freqs.weight", "got 0", "above 0"}},
      {-1,
       "rotary factors and a scaling",
       factors_and("yarn"),
       {"llama.rope.scaling.type", "got \"yarn\"", "no scaling in addition to the tensor rope_freqs.weight"}},
      {-1,
       "a factor of yarn that is unsupported",
       yarn_with(gguf_f32("llama.rope.scaling.yarn_ext_factor", 1)),
       {"llama.rope.scaling.yarn_ext_factor", "got 1", "a file without this key"}},
      {-1,
       "a bias in Q4_0 whose rows are rotary pairs",
       with({"blk.0.attn_q.bias", {0}, kQ4, 96}),
       {"\"blk.0.attn_q.bias\"", "unsupported Q4_0 bias", "F32, F16 or BF16"}},
      {-1,
       "a norm in Q4_0",
       quantised_norm(),
       {"\"output_norm.weight\"", "unsupported Q4_0 norm", "F32, F16 or BF16"}},
      {-1, "no eps", without("llama.attention.layer_norm_rms_epsilon"), {"missing, need a number above 0"}},
  };
}

std::string numbered_tokens() {
  GgufParts parts = good();
  parts.fields.push_back(gguf_text("tokenizer.ggml.model", "llama"));
  parts.fields.push_back({"tokenizer.ggml.tokens", 9, array(4, 1, "1234").bytes});
  return parts.bytes();
}

std::vector<Row> bad_tokenizers() {
  const GgufField none = gguf_u32("a", 1);
  const std::string byte = little_endian(1, 4) + little_endian(6, 4);
  return {
      {66, "a byte of -1", with_tokenizer({"a", "<0x-1>"}, types(byte)), {"token 1", "\"<0x-1>\"", "<0xFF>"}},
      {66, "without types", with_tokenizer({"a", "<0x-1>"}, none), {"token 1", "\"<0x-1>\""}},
      {66, "of a plain type", with_tokenizer({"<0x-1>"}, types(little_endian(1, 4))), {"token 0"}},
      {66, "among mapped bytes", with_tokenizer({"a", "<0x-1>"}, types(byte), "gpt2"), {"token 1"}},
      {66, "a byte of three digits", with_tokenizer({"a", "<0x100>"}, types(byte)), {"\"<0x100>\""}},
      {66, "a byte of a letter", with_tokenizer({"a", "b"}, types(byte)), {"got \"b\", need a byte"}},
      {66, "a byte without digits", with_tokenizer({"a", "<0x>"}, types(byte)), {"\"<0x>\""}},
      {-1, "a token of half a character", with_tokenizer({"\xC3"}, none), {"token 0", "UTF-8"}},
      {-1, "tokens that are numbers", numbered_tokens(), {"tokenizer.ggml.tokens", "an array of strings"}},
      {-1,
       "a type too few",
       with_tokenizer({"a", "b"}, types(little_endian(1, 4))),
       {"an array of 1", "2 tokens"}},
      {-1, "an unknown type", with_tokenizer({"a"}, types(little_endian(7, 4))), {"7 is unsupported"}},
      {-1, "a negative type", with_tokenizer({"a"}, types(little_endian(kMost, 4))), {"-1 is unsupported"}},
      {-1, "types that are numbers", with_tokenizer({"a"}, types(little_endian(1, 4), 6)), {"integers"}},
      {-1,
       "scores that are integers",
       with_tokenizer({"a"}, {"tokenizer.ggml.scores", 9, array(5, 1, "1234").bytes}),
       {"tokenizer.ggml.scores", "an array of finite numbers in float32"}},
      {-1, "a score too many", with_tokenizer({"a"}, scores({1, 2})), {"tokenizer.ggml.scores", "1 tokens"}},
      {-1,
       "a score that is not a number",
       with_tokenizer({"a"}, scores({std::numeric_limits<float>::infinity()})),
       {"tokenizer.ggml.scores", "finite"}},
      {-1,
       "an id that no token has",
       with_tokenizer({"a"}, gguf_u32("tokenizer.ggml.bos_token_id", 1)),
       {"bos_token_id", "got 1", "below 1"}},
      {-1,
       "a flag that is a number",
       with_tokenizer({"a"}, gguf_u32("tokenizer.ggml.add_bos_token", 1)),
       {"add_bos_token", "true or false"}},
      {-1,
       "merges in one string",
       with_tokenizer({"a"}, gguf_text("tokenizer.ggml.merges", "a b")),
       {"tokenizer.ggml.merges", "array of strings"}},
  };
}

}  // namespace

TEST_CASE("errors of bad GGUF files name the key or tensor") {
  const TempDir folder;
  Warnings warnings;
  for (const auto& rows : {bad_headers(), bad_tensors(), bad_models(), bad_tokenizers()}) {
    for (const Row& row : rows) {
      CAPTURE(row.kind);
      CAPTURE(row.what);
      const auto path = folder.write("model.gguf", row.bytes);
      auto parts = row.parts;
      parts.emplace_back("model.gguf");
      check_refusal([&] { (void)open_checkpoint(path, warnings); }, Status::bad_input, parts);
      check_weights_refused(path);
    }
  }
}

TEST_CASE("the configuration of a GGUF file follows from its metadata") {
  struct Case {
    std::string bytes;
    const char* key;
    const char* json;
  };
  const TempDir folder;
  Warnings warnings;
  for (const Case& row :
       {Case{gemma2(46).bytes(), "query_pre_attn_scalar", "6"},  // hidden size / heads, in the largest model
        Case{gemma2(45).bytes(), "query_pre_attn_scalar", "4"},  // the head width
        Case{with(gguf_f32("llama.rope.scale_linear", 2)), "rope_scaling",
             R"({"rope_type":"linear","factor":2.0})"},
        Case{yarn_with(gguf_u32("llama.rope.scaling.original_context_length", 4)), "rope_scaling",
             R"({"rope_type":"yarn","original_max_position_embeddings":4})"},
        Case{with(gguf_text("llama.rope.scaling.type", "none")), "rope_scaling", "null"},
        Case{with(gguf_u32("llama.rope.dimension_count", 2)), "rope_scaling", "null"}}) {
    CAPTURE(row.key);
    CAPTURE(row.json);
    const auto checkpoint = open_checkpoint(folder.write("model.gguf", row.bytes), warnings);
    CHECK(checkpoint->config->value(row.key, nlohmann::ordered_json()).dump() == row.json);
  }
}

TEST_CASE("a GGUF file without a tokenizer or its tokens has none") {
  const TempDir folder;
  Warnings warnings;
  for (const std::string& bytes : {good().bytes(), with(gguf_text("tokenizer.ggml.model", "none")),
                                   with(gguf_text("tokenizer.ggml.model", "no_vocab")),
                                   with(gguf_text("tokenizer.ggml.model", "llama"))})
    CHECK(open_checkpoint(folder.write("model.gguf", bytes), warnings)->tokenizer == nullptr);
  const std::string bytes = with_tokenizer({"a"}, gguf_u32("a", 1), "no_vocab");
  CHECK(open_checkpoint(folder.write("model.gguf", bytes), warnings)->tokenizer == nullptr);
}

TEST_CASE("a GGUF name that is not of a known tensor stays as it is") {
  const TempDir folder;
  Warnings warnings;
  for (const std::string name : {"blk.x.attn_q.weight", "blk.01.attn_q.weight", "blk.1", "blk.",
                                 "attn_q.weight", "blk.0.output_norm.weight", "weight", "blk.0.weight"}) {
    const auto checkpoint = open_checkpoint(folder.write("model.gguf", with({name, {0}, 0, 96})), warnings);
    CAPTURE(name);
    CHECK(checkpoint->find(name) != Checkpoint::npos);
  }
}

TEST_CASE("kind 66: tokenize also rejects the token") {
  const TempDir folder;
  const auto path = folder.write("model.gguf", with_tokenizer({"a", "<0x-1>"}, gguf_u32("a", 1)));
  check_refusal([&] { (void)read_tokenizer_section(path); }, Status::bad_input,
                {"model.gguf", "token 1", "\"<0x-1>\""});
}

TEST_CASE("kind 54: a weight must not have a dimension of 0") {
  GgufParts parts = good();
  parts.tensors[0].extents = {0, 3};
  const TempDir folder;
  const auto path = folder.write("model.gguf", parts.bytes());
  Warnings warnings;
  CHECK(open_checkpoint(path, warnings)->tensors().size() == 2);
  check_weights_refused(path);
}

TEST_CASE("a tensor of very many rows without columns is read at once") {
  GgufParts parts = good();
  parts.tensors[0].extents = {0, std::uint64_t{1} << 50U};
  parts.tensors[0].type = 3;  // Q4_1, which is decoded row by row
  const TempDir folder;
  Warnings warnings;
  const auto checkpoint = open_checkpoint(folder.write("model.gguf", parts.bytes()), warnings);
  for (std::size_t i = 0; i < 2; ++i) {
    const TensorView tensor = checkpoint->tensor(i);
    CHECK(tensor.bytes.empty() == (tensor.shape.size() == 2));
  }
}

TEST_CASE("kind 67: a GGUF file that is cut at any byte is rejected") {
  const std::string whole = good().bytes();
  const TempDir folder;
  Warnings warnings;
  CHECK(open_checkpoint(folder.write("model.gguf", whole), warnings)->tensors().size() == 2);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    const auto path = folder.write("model.gguf", whole.substr(0, size));
    check_refusal([&] { (void)open_checkpoint(path, warnings); }, Status::bad_input, {"model.gguf"});
  }
}

TEST_CASE("GGUF version 2, other alignments, integers of any width and gaps are supported") {
  GgufParts parts = good();
  parts.version = 2;
  parts.fields.push_back({"general.alignment", 10, little_endian(64, 8)});
  parts.fields.push_back({"llama.vocab_size", 0, "\3"});
  parts.fields.push_back({"llama.rope.dimension_count", 1, "\2"});                 // int8
  parts.fields.push_back({"llama.attention.key_length", 3, little_endian(2, 2)});  // int16
  parts.fields.push_back({"llama.rope.freq_base", 12, bytes_of<double>({5000})});
  parts.tensors[1].offset = 128;
  std::string bytes = parts.bytes();
  const std::size_t header = bytes.size() - parts.data.size();
  bytes.resize((header + 63) / 64 * 64);
  bytes += std::string(128, '\0') + bytes_of<float>({1, 2, 3, 4}) + std::string(48, '\0');
  const TempDir folder;
  Warnings warnings;
  const auto checkpoint = open_checkpoint(folder.write("model.gguf", bytes), warnings);
  CHECK(checkpoint->config->at("head_dim") == 2);
  CHECK(checkpoint->config->at("rope_theta") == 5000);
  const TensorView norm = checkpoint->tensor(checkpoint->find("model.norm.weight"));
  CHECK(std::string(reinterpret_cast<const char*>(norm.bytes.data()), norm.bytes.size()) ==
        bytes_of<float>({1, 2, 3, 4}));
}
