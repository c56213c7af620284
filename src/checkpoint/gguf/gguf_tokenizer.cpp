#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/gguf/gguf.hpp"

namespace attnctl {
namespace {

using TokenType = TokenizerSection::Type;

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kTokenTypes = "tokenizer.ggml.token_type";

struct TokenRole {
  std::string_view key;  // without "tokenizer.ggml." and "_token_id"
  std::string_view role;
};
// The format misspells "separator"; both spellings are read.
constexpr TokenRole kTokenRoles[] = {{"bos", "bos_token"},       {"eos", "eos_token"},
                                     {"unknown", "unk_token"},   {"seperator", "sep_token"},
                                     {"separator", "sep_token"}, {"padding", "pad_token"},
                                     {"cls", "cls_token"},       {"mask", "mask_token"}};

void check_length(const GgufMetadata& metadata, std::string_view key, std::size_t found, std::size_t tokens) {
  if (found == tokens) return;
  metadata.reject(*metadata.find(key), fmt::format("one for each of the {} tokens", tokens));
}

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

/// Returns true for <0x00> to <0xFF>.
bool is_byte(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && is_hex(token[3]) && is_hex(token[4]) &&
         token[5] == '>';
}

/// Returns true for byte tokens, also if their type says otherwise.
bool means_byte(const TokenizerSection& section, std::size_t id) {
  const std::string_view token = section.tokens[id];
  if (section.types[id] == TokenType::byte) return true;
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
}

std::vector<TokenType> read_types(const GgufMetadata& metadata, std::size_t tokens) {
  const auto numbers = metadata.integers(kTokenTypes);
  if (!numbers) return std::vector<TokenType>(tokens, TokenType::normal);
  check_length(metadata, kTokenTypes, numbers->size(), tokens);
  std::vector<TokenType> types;
  for (const std::int64_t number : *numbers) {
    if (number < 0 || number > static_cast<std::int64_t>(TokenType::byte)) {
      metadata.reject(*metadata.find(kTokenTypes),
                      fmt::format("types from 0 to 6, {} is unsupported", number));
    }
    types.push_back(static_cast<TokenType>(number));
  }
  return types;
}

void check_tokens(const std::string& file, const TokenizerSection& section) {
  for (std::size_t id = 0; id < section.tokens.size(); ++id) {
    const std::string& token = section.tokens[id];
    const auto reject = [&](std::string_view need) {
      fail(Status::bad_input, "{}: metadata \"{}\": token {}: got {}, need {}", file, kTokens, id,
           in_quotes(token), need);
    };
    if (find_ill_formed_utf8(token)) reject("UTF-8");
    if (means_byte(section, id) && !is_byte(token)) reject("a byte, <0x00> to <0xFF>");
  }
}

}  // namespace

std::shared_ptr<const TokenizerSection> read_gguf_tokenizer(const std::string& file,
                                                            const GgufMetadata& metadata) {
  const auto model = metadata.text("tokenizer.ggml.model");
  if (!model || *model == "none" || *model == "no_vocab") return nullptr;
  auto tokens = metadata.texts(kTokens);
  if (!tokens) return nullptr;
  const auto section = std::make_shared<TokenizerSection>();
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
  for (const TokenRole& role : kTokenRoles) {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", role.key);
    const auto id = metadata.integer(key);
    if (!id) continue;
    if (*id >= section->tokens.size()) {
      metadata.reject(*metadata.find(key), fmt::format("an id below {}", section->tokens.size()));
    }
    section->roles.emplace_back(role.role, *id);
  }
  section->add_bos = metadata.flag("tokenizer.ggml.add_bos_token");
  section->add_eos = metadata.flag("tokenizer.ggml.add_eos_token");
  section->add_space_prefix = metadata.flag("tokenizer.ggml.add_space_prefix");
  section->remove_extra_whitespaces = metadata.flag("tokenizer.ggml.remove_extra_whitespaces");
  return section;
}

}  // namespace attnctl
