#include "tokenizer/models/token_model.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/shown.hpp"
#include "tokenizer/models/models.hpp"
#include "tokenizer/models/token_trie.hpp"

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
  const std::string type = model.string("type");
  std::vector<std::string_view> supported;
  for (const Row& row : kModels) {
    if (row.type == type) return row.make(file, model);
    supported.push_back(row.type);
  }
  model.unsupported("type", type, supported);
}

void UnknownToken::refuse() const {
  fail(Status::bad_input,
       "{}: /model/unk_token: got {}, which the vocabulary does not have, for text that has no token", file_,
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

}  // namespace attnctl
