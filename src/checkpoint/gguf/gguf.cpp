#include "checkpoint/gguf/gguf.hpp"

#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/numbers.hpp"
#include "base/text.hpp"
#include "checkpoint/readers.hpp"

namespace attnctl::checkpoint {
namespace {

/// Returns a type whose values are stored in blocks.
constexpr GgmlType in_blocks(std::uint32_t id, std::string_view name, linalg::NumberEncoding encoding) {
  const linalg::EncodingBlock size = linalg::block_size(encoding);
  return {id, name, size.values, size.bytes, DType::f32, encoding};
}

constexpr std::array kGgmlTypes = {
    GgmlType{0, "F32", 1, 4, DType::f32},
    GgmlType{1, "F16", 1, 2, DType::f16},
    GgmlType{30, "BF16", 1, 2, DType::bf16},
    in_blocks(2, "Q4_0", linalg::NumberEncoding::q4_0),
    in_blocks(3, "Q4_1", linalg::NumberEncoding::q4_1),
    in_blocks(6, "Q5_0", linalg::NumberEncoding::q5_0),
    in_blocks(7, "Q5_1", linalg::NumberEncoding::q5_1),
    in_blocks(8, "Q8_0", linalg::NumberEncoding::q8_0),
    in_blocks(12, "Q4_K", linalg::NumberEncoding::q4_k),
    in_blocks(13, "Q5_K", linalg::NumberEncoding::q5_k),
    in_blocks(14, "Q6_K", linalg::NumberEncoding::q6_k),
    in_blocks(39, "MXFP4", linalg::NumberEncoding::mxfp4),
};

/// Numbers and names of unsupported types. ggml itself has removed some of these types.
constexpr std::pair<std::uint32_t, std::string_view> kUnsupportedTypes[] = {
    {4, "Q4_2"},        {5, "Q4_3"},        {9, "Q8_1"},       {10, "Q2_K"},    {11, "Q3_K"},
    {15, "Q8_K"},       {16, "IQ2_XXS"},    {17, "IQ2_XS"},    {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {20, "IQ4_NL"},     {21, "IQ3_S"},      {22, "IQ2_S"},     {23, "IQ4_XS"},  {24, "I8"},
    {25, "I16"},        {26, "I32"},        {27, "I64"},       {28, "F64"},     {29, "IQ1_M"},
    {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"},   {33, "Q4_0_8_8"},  {34, "TQ1_0"},   {35, "TQ2_0"},
    {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"}};

using TokenType = formats::TokenizerSection::Type;

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kTokenTypes = "tokenizer.ggml.token_type";

/// Metadata keys without "tokenizer.ggml." and "_token_id", and the roles of their tokens. The GGUF format
/// spells "separator" as "seperator". Both spellings are accepted.
constexpr std::pair<std::string_view, std::string_view> kTokenRoles[] = {
    {"bos", "bos_token"},       {"eos", "eos_token"},       {"unknown", "unk_token"},
    {"seperator", "sep_token"}, {"separator", "sep_token"}, {"padding", "pad_token"},
    {"cls", "cls_token"},       {"mask", "mask_token"}};

void check_length(const GgufMetadata& metadata, std::string_view key, std::size_t found, std::size_t tokens) {
  if (found == tokens) return;
  metadata.reject(key, fmt::format("an element for each of the {} tokens", tokens));
}

std::vector<TokenType> read_types(const GgufMetadata& metadata, std::size_t tokens) {
  const auto numbers = metadata.integers(kTokenTypes);
  if (!numbers) return std::vector<TokenType>(tokens, TokenType::normal);
  check_length(metadata, kTokenTypes, numbers->size(), tokens);
  std::vector<TokenType> types;
  for (const std::int64_t number : *numbers) {
    if (number < 0 || number > static_cast<std::int64_t>(TokenType::byte))
      metadata.reject(kTokenTypes, fmt::format("types from 0 to 6; {} is unsupported", number));
    types.push_back(static_cast<TokenType>(number));
  }
  return types;
}

void check_tokens(const std::string& file, const formats::TokenizerSection& section) {
  for (std::size_t id = 0; id < section.tokens.size(); ++id) {
    const std::string& token = section.tokens[id];
    const auto reject = [&](std::string_view need) {
      refuse(file, "metadata \"{}\": token {}: got {}, need {}", kTokens, id, in_quotes(token), need);
    };
    if (find_ill_formed_utf8(token)) reject("UTF-8");
    const bool has_form = token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
    if (!has_form && section.types[id] != TokenType::byte) continue;
    if (!has_form || token.find_first_not_of("0123456789abcdefABCDEF", 3) != 5)
      reject("a byte, <0x00> to <0xFF>");
  }
}

/// Returns the row of the GGUF matrix, which has `rows` rows, that holds row `row` of the Hugging Face
/// matrix, or its column `row` if the Hugging Face matrix is the transpose.
std::size_t gguf_row(const GgufMapped& mapped, std::size_t rows, std::size_t row) {
  if (mapped.order != GgufOrder::rotary_pairs) return row;
  const std::size_t width = rows / mapped.heads;
  const std::size_t head = row / width;
  const std::size_t offset = row % width;
  return head * width + 2 * (offset % (width / 2)) + offset / (width / 2);
}

/// Returns the decoded values of a tensor in the order of a Hugging Face checkpoint.
std::vector<std::byte> to_plain(const GgufTensor& tensor, const GgufMapped& mapped) {
  const GgmlType& type = *tensor.type;
  const bool transposed = mapped.order == GgufOrder::transposed;
  const std::size_t count = tensor.bytes.size() / type.block_bytes * type.block_values;
  const std::size_t rows =
      tensor.shape.size() < 2 && mapped.order == GgufOrder::as_stored ? 1 : tensor.shape.front();
  const std::size_t columns = rows == 0 ? 0 : count / rows;
  const std::size_t stored_size = columns / type.block_values * type.block_bytes;
  const std::size_t size = size_of(type.dtype);
  std::vector<std::byte> all(rows * columns * size);
  if (all.empty()) return all;  // there may be very many rows without columns
  std::vector<std::byte> column(transposed ? columns * size : 0);  // one column of the result
  for (std::size_t r = 0; r < rows; ++r) {
    const auto stored = tensor.bytes.subspan(gguf_row(mapped, rows, r) * stored_size, stored_size);
    const auto out =
        transposed ? std::span(column) : std::span(all).subspan(r * columns * size, columns * size);
    if (type.blocks) {
      linalg::decoders(*type.blocks)
          .rows(stored.data(), columns / type.block_values, reinterpret_cast<float*>(out.data()));
    } else {
      std::ranges::copy(stored, out.begin());
    }
    for (std::size_t c = 0; transposed && c < columns; ++c)
      std::memcpy(all.data() + (c * rows + r) * size, column.data() + c * size, size);
  }
  return all;
}

/// Returns the stored bytes of a tensor whose products need no conversion of the whole tensor.
std::optional<EncodedTensor> encoded_as(const GgufTensor& tensor, const GgufMapped& mapped) {
  if (mapped.added != 0 || tensor.shape.empty() || tensor.bytes.empty()) return std::nullopt;
  EncodedTensor made{.encoding = linalg::NumberEncoding::f16, .bytes = tensor.bytes};
  if (tensor.type->blocks) {
    made.encoding = *tensor.type->blocks;
  } else if (tensor.type->dtype == DType::bf16) {
    made.encoding = linalg::NumberEncoding::bf16;
  } else if (tensor.type->dtype != DType::f16) {
    return std::nullopt;
  }
  if (mapped.order == GgufOrder::rotary_pairs) made.head_rows = tensor.shape.front() / mapped.heads;
  made.transposed = mapped.order == GgufOrder::transposed;
  return made;
}

std::vector<std::byte> subtract_added(const GgufTensor& tensor, float added) {
  std::vector<float> values(tensor.bytes.size() / size_of(tensor.type->dtype));
  convert(tensor.type->dtype, tensor.bytes, std::span(values));
  for (float& value : values) value -= added;
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::shared_ptr<const formats::TokenizerSection> read_section(const std::string& file,
                                                              const GgufMetadata& metadata) {
  const auto model = metadata.text("tokenizer.ggml.model");
  if (!model || *model == "none" || *model == "no_vocab") return nullptr;
  auto tokens = metadata.texts(kTokens);
  if (!tokens) return nullptr;
  const auto section = std::make_shared<formats::TokenizerSection>();
  section->file = file;
  section->model = *model;
  section->pre = metadata.text("tokenizer.ggml.pre").value_or("");
  section->tokens = std::move(*tokens);
  section->types = read_types(metadata, section->tokens.size());
  check_tokens(file, *section);
  if (auto scores = metadata.floats(kScores)) {
    check_length(metadata, kScores, scores->size(), section->tokens.size());
    section->scores = std::move(*scores);
  }
  section->merges = metadata.texts("tokenizer.ggml.merges").value_or(std::vector<std::string>());
  for (const auto& [token, role] : kTokenRoles) {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", token);
    const auto id = metadata.integer(key);
    if (!id) continue;
    if (*id >= section->tokens.size())
      metadata.reject(key, fmt::format("an id below {}", section->tokens.size()));
    section->roles.emplace_back(role, *id);
  }
  section->add_bos = metadata.flag("tokenizer.ggml.add_bos_token");
  section->add_eos = metadata.flag("tokenizer.ggml.add_eos_token");
  section->add_space_prefix = metadata.flag("tokenizer.ggml.add_space_prefix");
  section->remove_extra_whitespaces = metadata.flag("tokenizer.ggml.remove_extra_whitespaces");
  return section;
}

}  // namespace

const GgmlType& ggml_type(std::uint32_t id, std::string_view file, std::string_view what) {
  const auto* const type = std::ranges::find(kGgmlTypes, id, &GgmlType::id);
  if (type != kGgmlTypes.end()) return *type;
  std::string name = fmt::format("number {}", id);
  for (const auto& [number, known] : kUnsupportedTypes) {
    if (number == id) name = known;
  }
  refuse(file, "{}: unsupported type {}; supported: {}", what, name, join_texts(kGgmlTypes, &GgmlType::name));
}

void read_gguf(const MappedFile& file, Checkpoint& checkpoint, Warnings& /*warnings*/) {
  const GgufLayout layout = read_gguf_layout(file);
  GgufModel model = map_gguf(file.name(), layout);
  checkpoint.config = std::make_shared<const nlohmann::ordered_json>(std::move(model.config));
  checkpoint.tokenizer = read_section(file.name(), layout.metadata);
  for (const GgufMapped& mapped : model.tensors) {
    const GgufTensor& tensor = layout.tensors[mapped.tensor];
    TensorInfo info = {mapped.name, mapped.added != 0 ? DType::f32 : tensor.type->dtype, tensor.shape};
    if (mapped.order == GgufOrder::transposed) std::ranges::reverse(info.shape);
    if (mapped.order == GgufOrder::as_stored && !tensor.type->blocks && mapped.added == 0) {
      checkpoint.add(file, std::move(info), tensor.bytes);
      continue;
    }
    const std::uint64_t size = checked_product(info.shape).value_or(0) * size_of(info.dtype);
    checkpoint.add(file, std::move(info), tensor.bytes, tensor.bytes.size() + size,
                   [&file, mapped, tensor](std::vector<std::byte>& copy) -> std::span<const std::byte> {
                     copy =
                         mapped.added != 0 ? subtract_added(tensor, mapped.added) : to_plain(tensor, mapped);
                     file.forget(tensor.bytes);
                     return copy;
                   });
    if (const auto encoded = encoded_as(tensor, mapped)) checkpoint.set_encoded(*encoded);
  }
}

std::shared_ptr<const formats::TokenizerSection> read_gguf_tokenizer(const MappedFile& file) {
  return read_section(file.name(), read_gguf_layout(file).metadata);
}

}  // namespace attnctl::checkpoint
