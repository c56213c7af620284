#include "checkpoint/gguf/gguf.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/readers.hpp"

namespace attnctl::checkpoint {
namespace {

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
  metadata.reject(key, fmt::format("one for each of the {} tokens", tokens));
}

/// Returns whether a token has the form <0x..>.
bool has_byte_form(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
}

std::vector<TokenType> read_types(const GgufMetadata& metadata, std::size_t tokens) {
  const auto numbers = metadata.integers(kTokenTypes);
  if (!numbers) return std::vector<TokenType>(tokens, TokenType::normal);
  check_length(metadata, kTokenTypes, numbers->size(), tokens);
  std::vector<TokenType> types;
  for (const std::int64_t number : *numbers) {
    if (number < 0 || number > static_cast<std::int64_t>(TokenType::byte))
      metadata.reject(kTokenTypes, fmt::format("types from 0 to 6, {} is unsupported", number));
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
    const bool has_form = has_byte_form(token);
    if (!has_form && section.types[id] != TokenType::byte) continue;
    if (!has_form || token.find_first_not_of("0123456789abcdefABCDEF", 3) != 5)
      reject("a byte, <0x00> to <0xFF>");
  }
}

/// Returns the row of the GGUF matrix that holds row `row` of the Hugging Face matrix. Both have `rows` rows.
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
  std::vector<std::byte> column(transposed ? columns * size : 0);  // one column of the result
  for (std::size_t r = 0; r < rows; ++r) {
    const auto stored = tensor.bytes.subspan(gguf_row(mapped, rows, r) * stored_size, stored_size);
    const auto out =
        transposed ? std::span(column) : std::span(all).subspan(r * columns * size, columns * size);
    if (type.decode == nullptr) {
      std::ranges::copy(stored, out.begin());
    } else {
      auto* const values = reinterpret_cast<float*>(out.data());
      for (std::size_t block = 0; block < columns / type.block_values; ++block)
        type.decode(stored.data() + block * type.block_bytes, values + block * type.block_values);
    }
    for (std::size_t c = 0; transposed && c < columns; ++c)
      std::memcpy(all.data() + (c * rows + r) * size, column.data() + c * size, size);
  }
  return all;
}

/// Returns the values of a tensor minus `added`, in float32.
std::vector<std::byte> subtract_added(const GgufTensor& tensor, float added) {
  std::vector<float> values(tensor.bytes.size() / size_of(tensor.type->dtype));
  convert(tensor.type->dtype, tensor.bytes, std::span(values));
  for (float& value : values) value -= added;
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::shared_ptr<const formats::TokenizerSection> read_gguf_tokenizer(const std::string& file,
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

std::unique_ptr<Checkpoint> open_gguf(FileBytes file) {
  const GgufLayout layout = read_gguf_layout(file);
  GgufModel model = map_gguf(file.name(), layout);
  auto checkpoint = std::make_unique<FileCheckpoint>(std::move(file));
  const FileBytes& from = checkpoint->file();
  checkpoint->set_inside(std::make_shared<const nlohmann::ordered_json>(std::move(model.config)),
                         read_gguf_tokenizer(from.name(), layout.metadata));
  for (const GgufMapped& mapped : model.tensors) {
    const GgufTensor& tensor = layout.tensors[mapped.tensor];
    TensorInfo info = {mapped.name, mapped.added != 0 ? DType::f32 : tensor.type->dtype, tensor.shape,
                       from.name()};
    if (mapped.order == GgufOrder::transposed) std::ranges::reverse(info.shape);
    if (mapped.order == GgufOrder::as_stored && tensor.type->decode == nullptr && mapped.added == 0) {
      checkpoint->add(std::move(info), tensor.bytes);
      continue;
    }
    const std::uint64_t size = checked_product(info.shape).value_or(0) * size_of(info.dtype);
    checkpoint->add(std::move(info), tensor.bytes, tensor.bytes.size() + size,
                    [&from, mapped, tensor](std::vector<std::byte>& copy) -> std::span<const std::byte> {
                      copy =
                          mapped.added != 0 ? subtract_added(tensor, mapped.added) : to_plain(tensor, mapped);
                      from.forget(tensor.bytes);
                      return copy;
                    });
  }
  return checkpoint;
}

std::shared_ptr<const formats::TokenizerSection> read_gguf_tokenizer(const FileBytes& file) {
  return read_gguf_tokenizer(file.name(), read_gguf_layout(file).metadata);
}

}  // namespace attnctl::checkpoint
