#include "tokenizer/models/token_model.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl {
namespace {

struct Row {
  std::string_view type;
  TokenModelPtr (*make)(TokenizerFile& file, const PartConfig& model);
};

constexpr Row kModels[] = {
    {"WordPiece", make_word_piece},
    {"BPE", make_bpe},
    {"Unigram", make_unigram},
    {"WordLevel", make_word_level},
};

}  // namespace

TokenModelPtr make_token_model(TokenizerFile& file) {
  if (!file.table) file.table.emplace(file.vocabulary);
  const PartConfig model = file.document().object("model");
  return find_part(model, kModels).make(file, model);
}

void UnknownToken::refuse() const {
  fail(Status::bad_input,
       "{}: /model/unk_token: the text needs the unknown token {}, which the vocabulary does not have", file_,
       in_quotes(token_));
}

TokenTrie make_trie(const std::vector<TokenEntry>& entries, const TokenTable& table) {
  std::vector<TokenTrie::Key> keys;
  keys.reserve(entries.size());
  for (const auto& entry : entries) {
    if (!entry.token.empty()) keys.push_back({entry.token, table.find(entry.token)});
  }
  std::sort(keys.begin(), keys.end(),
            [](const TokenTrie::Key& a, const TokenTrie::Key& b) { return a.bytes < b.bytes; });
  const auto same = [](const TokenTrie::Key& a, const TokenTrie::Key& b) { return a.bytes == b.bytes; };
  keys.erase(std::unique(keys.begin(), keys.end(), same), keys.end());
  return TokenTrie(keys);
}

std::array<std::int32_t, 256> byte_tokens(const TokenTable& vocabulary) {
  std::array<std::int32_t, 256> ids{};
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = vocabulary.find(fmt::format("<0x{:02X}>", i));
  return ids;
}

}  // namespace attnctl
