#include "tokenizer/files/tokenizer_file.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "tokenizer/files/tokenizer_config.hpp"

namespace attnctl {
namespace {

using Json = nlohmann::ordered_json;

TokenizerFile read_json_layout(const std::filesystem::path& path, TokenizerConfig& config,
                               Wanted /*wanted*/) {
  TokenizerFile file = parse_tokenizer_json(path);
  add_tokens(file, config);
  check_vocabulary(file);
  return file;
}

struct Layout {
  std::string_view file;
  TokenizerFile (*read)(const std::filesystem::path& path, TokenizerConfig& config, Wanted wanted);
};

/// The layouts in the order of preference.
constexpr Layout kLayouts[] = {
    {"tokenizer.json", read_json_layout}, {"vocab.txt", read_vocab_txt},
    {"vocab.json", read_vocab_json},      {"tokenizer.model", read_sentencepiece},
    {"spiece.model", read_sentencepiece}, {"sentencepiece.bpe.model", read_sentencepiece},
};

std::optional<TokenizerFile> read(const std::filesystem::path& directory, Wanted wanted) {
  for (const Layout& layout : kLayouts) {
    const std::filesystem::path path = directory / layout.file;
    if (!std::filesystem::exists(path)) continue;
    TokenizerConfig config(directory);
    return layout.read(path, config, wanted);
  }
  return std::nullopt;
}

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
  // Ids may be unused, but a table of all ids must not be far larger than the file.
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

/// Keeps the last of repeated tokens and drops tokens without content.
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

Json template_pieces(const std::vector<TemplatePiece>& pieces) {
  Json list = Json::array();
  for (const TemplatePiece& piece : pieces) {
    const bool is_text = piece.piece == "$A" || piece.piece == "$B";
    list.push_back({{is_text ? "Sequence" : "SpecialToken",
                     {{"id", is_text ? piece.piece.substr(1) : piece.piece}, {"type_id", piece.type_id}}}});
  }
  return list;
}

}  // namespace

std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const Layout& layout : kLayouts) files.push_back(directory / layout.file);
  for (const char* const name :
       {"merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"})
    files.push_back(directory / name);
  return files;
}

std::optional<TokenizerFile> read_tokenizer_files(const std::filesystem::path& directory) {
  return read(directory, Wanted::tokenizer);
}

Vocabulary read_vocabulary(const TokenizerOrigin& origin) {
  if (origin.section == nullptr) return read_vocabulary(origin.directory);
  return make_vocabulary(read_section(*origin.section, Wanted::vocabulary));
}

Vocabulary read_vocabulary(const std::filesystem::path& directory) {
  const auto file = read(directory, Wanted::vocabulary);
  return file ? make_vocabulary(*file) : Vocabulary();
}

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
      const std::int64_t id = added.integer("id");  // set by check_vocabulary()
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

void check_vocabulary(TokenizerFile& file) {
  file.table.emplace(file.vocabulary);
  const bool by_place = file.parts["model"]["type"] == "Unigram";  // may repeat tokens
  if (!by_place && file.table->size() < file.vocabulary.size()) refuse_repeated_token(file);
  check_ids(file);
  number_added_tokens(file, by_place ? file.vocabulary.size() : file.table->size());
}

void check_class(const TokenizerConfig& config, std::string_view layout,
                 const std::vector<std::string_view>& supported) {
  if (!config.options().has("tokenizer_class")) return;
  const std::string found = config.options().string("tokenizer_class");
  std::string_view name = found;
  if (name.ends_with("Fast")) name.remove_suffix(4);
  if (std::find(supported.begin(), supported.end(), name) != supported.end()) return;
  config.options().refuse(
      "tokenizer_class",
      fmt::format("unsupported {} with {}, supported: {}; any class works with tokenizer.json",
                  in_quotes(found), layout, fmt::join(supported, ", ")));
}

Json added_token(std::string_view content, bool special, bool normalized) {
  return {{"id", 0U},        {"content", content},       {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", normalized}, {"special", special}};
}

std::uint64_t id_of(const TokenizerFile& file, std::string_view token) {
  for (const PartConfig& added : file.document().objects("added_tokens")) {
    if (added.string("content") == token) return static_cast<std::uint64_t>(added.integer("id"));
  }
  return static_cast<std::uint64_t>(file.table->find(token));
}

Json make_template(const TokenizerFile& file, const std::vector<TemplatePiece>& single,
                   const std::vector<TemplatePiece>& pair) {
  Json tokens = Json::object();
  for (const TemplatePiece& piece : pair) {
    if (piece.piece == "$A" || piece.piece == "$B") continue;
    tokens[piece.piece] = {
        {"id", piece.piece}, {"ids", {id_of(file, piece.piece)}}, {"tokens", {piece.piece}}};
  }
  return {{"type", "TemplateProcessing"},
          {"single", template_pieces(single)},
          {"pair", template_pieces(pair)},
          {"special_tokens", std::move(tokens)}};
}

Json make_template(const TokenizerFile& file, const std::string& before, const std::string& after) {
  std::vector<TemplatePiece> single;
  std::vector<TemplatePiece> pair;
  for (const unsigned text : {0U, 1U}) {
    if (!before.empty()) pair.push_back({before, text});
    pair.push_back({text == 0 ? "$A" : "$B", text});
    if (!after.empty()) pair.push_back({after, text});
    if (text == 0) single = pair;
  }
  return make_template(file, single, pair);
}

Json byte_level_decoder() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
}

}  // namespace attnctl
