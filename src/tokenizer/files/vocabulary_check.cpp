#include "tokenizer/files/vocabulary_check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "base/shown.hpp"
#include "tokenizer/models/token_table.hpp"

namespace attnctl {
namespace {

[[noreturn]] void refuse_vocabulary(const TokenizerFile& file, const std::string& what) {
  PartConfig(file.name, "/model/vocab", file.parts).refuse("", what);
}

void refuse_repeated_token(const TokenizerFile& file) {
  std::vector<const std::string*> tokens;
  for (const auto& entry : file.vocabulary) tokens.push_back(&entry.token);
  std::sort(tokens.begin(), tokens.end(), [](const auto* a, const auto* b) { return *a < *b; });
  const auto twice =
      std::adjacent_find(tokens.begin(), tokens.end(), [](const auto* a, const auto* b) { return *a == *b; });
  refuse_vocabulary(file, fmt::format("got the token {} twice", in_quotes(**twice)));
}

void check_ids(const TokenizerFile& file) {
  // Holes are allowed, but a table of all ids must not dwarf the file.
  const std::size_t limit = std::max<std::size_t>(std::size_t{1} << 20U, file.vocabulary.size() * 4);
  std::vector<const std::string*> tokens;
  for (const auto& entry : file.vocabulary) {
    const auto id = static_cast<std::size_t>(entry.id);
    if (id >= limit) {
      refuse_vocabulary(file, fmt::format("got id {} for {}, need ids below {} for {} tokens", id,
                                          in_quotes(entry.token), limit, file.vocabulary.size()));
    }
    if (id >= tokens.size()) tokens.resize(std::max(id + 1, std::min(limit, tokens.size() * 2)));
    if (tokens[id] != nullptr) {
      refuse_vocabulary(file, fmt::format("got id {} for {} and for {}", id, in_quotes(*tokens[id]),
                                          in_quotes(entry.token)));
    }
    tokens[id] = &entry.token;
  }
}

/// Of a token that comes again the last one counts; one without content never does.
void number_added_tokens(TokenizerFile& file, std::size_t size) {
  if (!file.document().has("added_tokens")) return;
  auto numbered = nlohmann::ordered_json::array();
  std::unordered_map<std::string, std::size_t> places;
  std::uint64_t next = size;
  for (const PartConfig& token : file.document().objects("added_tokens")) {
    const std::string content = token.string("content");
    if (content.empty()) continue;
    const auto [place, is_new] = places.try_emplace(content, numbered.size());
    if (is_new) {
      const auto known = file.table->id(content);
      numbered.push_back({{"id", known ? static_cast<std::uint64_t>(*known) : next++}});
    }
    nlohmann::ordered_json& target = numbered[place->second];
    const nlohmann::ordered_json id = target["id"];
    target = token.node();
    target["id"] = id;
  }
  file.parts["added_tokens"] = std::move(numbered);
}

}  // namespace

void check_vocabulary(TokenizerFile& file) {
  file.table.emplace(file.vocabulary);
  const bool by_place = file.parts["model"]["type"] == "Unigram";  // where a repeated token is the last's
  if (!by_place && file.table->size() < file.vocabulary.size()) refuse_repeated_token(file);
  check_ids(file);
  number_added_tokens(file, by_place ? file.vocabulary.size() : file.table->size());
}

}  // namespace attnctl
