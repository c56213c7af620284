#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/files/tokenizer_file.hpp"

namespace attnctl {

Vocabulary make_vocabulary(const TokenizerFile& file) {
  std::vector<std::string> tokens;
  const auto put = [&](std::size_t id, const std::string& token) {
    if (id >= tokens.size()) tokens.resize(id + 1);
    tokens[id] = token;
  };
  std::size_t largest = 0;
  for (const auto& entry : file.vocabulary) largest = std::max(largest, static_cast<std::size_t>(entry.id));
  tokens.reserve(largest + 1);
  for (const auto& entry : file.vocabulary) put(static_cast<std::size_t>(entry.id), entry.token);
  std::set<std::int64_t> special;
  if (file.document().has("added_tokens")) {
    for (const PartConfig& added : file.document().objects("added_tokens")) {
      const std::string content = added.string("content");
      if (content.empty()) continue;
      const std::int64_t id = added.integer("id");  // check_vocabulary() has set it
      put(static_cast<std::size_t>(id), content);
      if (added.boolean("special", false)) special.insert(id);
    }
  }
  Vocabulary vocabulary(std::move(tokens), std::move(special));
  for (const std::string_view token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    if (const auto id = vocabulary.id(token)) vocabulary.mark_special(*id);
  }
  for (const std::string& token : file.separators) {
    if (const auto id = vocabulary.id(token)) vocabulary.mark_separator(*id);
  }
  return vocabulary;
}

}  // namespace attnctl
