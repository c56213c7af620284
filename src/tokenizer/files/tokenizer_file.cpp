#include "tokenizer/files/tokenizer_file.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/text.hpp"
#include "formats/json.hpp"

namespace attnctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFileLimit = std::size_t{64} << 20U;
constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

bool is_usual(std::string_view role) {
  return std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
}

/// Reads an added token: an object with "content" and flags, or a string. A string is a special token.
Json token_of(const PartConfig& value) {
  if (value.node().is_string()) return added_token(value.node().get_ref<const std::string&>(), true);
  const bool special = value.boolean("special", false);
  Json token = added_token(value.string("content"), special, !special);
  for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) {
    token[flag] = value.boolean(flag, token[flag].get<bool>());
  }
  return token;
}

bool is_token(const Json& value) {
  return value.is_string() || (value.is_object() && value.contains("content"));
}

std::optional<Json> read_json(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  Json document = parse_json(path.string(), read_file(path, kFileLimit, Status::bad_input));
  if (!document.is_object()) {
    fail(Status::bad_input, "{}: top level: expected an object", escaped(path.string()));
  }
  return document;
}

std::string content_of(const Json& token) {
  return token.at("content").get<std::string>();
}

/// Returns the tokens under extra_special_tokens or, if there are none, under additional_special_tokens. The
/// value is a list of tokens, or an object from roles to tokens.
std::vector<Json> read_extra(const PartConfig& document) {
  std::vector<Json> all;
  const auto add = [&](const PartConfig& value) {
    if (!is_token(value.node())) value.refuse("", "expected a token, a string or an object with \"content\"");
    all.push_back(token_of(value));
  };
  for (const char* const key : {"extra_special_tokens", "additional_special_tokens"}) {
    if (!all.empty() || !document.has(key)) continue;
    const PartConfig extra = document.at(key);
    if (extra.node().is_object()) {
      for (const auto& [role, value] : extra.node().items()) add(extra.at(role));
    } else {
      for (const PartConfig& value : extra.elements()) add(value);
    }
  }
  return all;
}

struct Layout {
  std::string_view file;
  TokenizerFile (*read)(const std::filesystem::path& path, TokenizerConfig& config, Wanted wanted);
};

/// The tokenizer files, and the functions that read them, in order of preference.
constexpr Layout kLayouts[] = {
    {"tokenizer.json", read_tokenizer_json}, {"vocab.txt", read_vocab_txt},
    {"vocab.json", read_vocab_json},         {"tokenizer.model", read_sentencepiece},
    {"spiece.model", read_sentencepiece},    {"sentencepiece.bpe.model", read_sentencepiece},
};

[[noreturn]] void refuse_vocabulary(const TokenizerFile& file, const std::string& what) {
  PartConfig(file.name, "/model/vocab", file.parts).refuse("", what);
}

void refuse_repeated_token(const TokenizerFile& file) {
  std::unordered_set<std::string_view> known;
  for (const TokenEntry& entry : file.vocabulary) {
    if (known.insert(entry.token).second) continue;
    refuse_vocabulary(file, fmt::format("got the token {} twice", in_quotes(entry.token)));
  }
}

void check_ids(const TokenizerFile& file) {
  // Ids may be unused, but a table of all ids must not be far larger than the vocabulary.
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

/// Sets the ids of the added tokens. Of tokens with equal content, keeps the last. Drops tokens with empty
/// content. `size` is the first free id.
void number_added_tokens(TokenizerFile& file, std::size_t size) {
  if (!file.document().has("added_tokens")) return;
  Json numbered = Json::array();
  std::vector<std::uint64_t> ids;  // [numbered], id of each token in `numbered`
  std::unordered_map<std::string, std::size_t> places;
  std::uint64_t next = size;
  for (const PartConfig& token : file.document().objects("added_tokens")) {
    const std::string content = token.string("content");
    if (content.empty()) continue;
    const auto [place, is_new] = places.try_emplace(content, numbered.size());
    if (is_new) {
      const std::int32_t known = file.table->find(content);
      ids.push_back(known >= 0 ? static_cast<std::uint64_t>(known) : next++);
      numbered.emplace_back();
    }
    Json& target = numbered[place->second] = token.node();
    target["id"] = ids[place->second];
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

std::optional<TokenizerFile> read_tokenizer_files(const std::filesystem::path& directory, Wanted wanted) {
  for (const Layout& layout : kLayouts) {
    const std::filesystem::path path = directory / layout.file;
    if (!std::filesystem::exists(path)) continue;
    TokenizerConfig config(directory);
    return layout.read(path, config, wanted);
  }
  return std::nullopt;
}

Vocabulary read_vocabulary(const TokenizerOrigin& origin) {
  if (origin.section == nullptr) return read_vocabulary(origin.directory);
  return make_vocabulary(read_section(*origin.section, Wanted::vocabulary));
}

Vocabulary read_vocabulary(const std::filesystem::path& directory) {
  const auto file = read_tokenizer_files(directory, Wanted::vocabulary);
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
  // Ids are positions, so that a token may occur twice.
  const bool by_place = file.parts["model"]["type"] == "Unigram";
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

Json make_template(const TokenizerFile& file, const TokenizerConfig& config, bool ends) {
  const auto token_if = [&](bool is_added, const char* role) { return is_added ? config.token(role) : ""; };
  const std::string before = token_if(config.options().boolean("add_bos_token", false), "bos_token");
  const std::string after = token_if(ends || config.options().boolean("add_eos_token", false), "eos_token");
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

TokenizerConfig::TokenizerConfig(const std::filesystem::path& directory)
    : TokenizerConfig(escaped((directory / "tokenizer_config.json").string()),
                      read_json(directory / "tokenizer_config.json").value_or(Json::object())) {
  std::vector<Json> extra_of_map;
  const bool has_decoder = options().has("added_tokens_decoder");
  if (has_decoder) {
    read_decoder(options().object("added_tokens_decoder"));
  } else if (const auto map = read_json(directory / "special_tokens_map.json")) {
    const PartConfig document(escaped((directory / "special_tokens_map.json").string()), "", *map);
    read_roles(document);
    extra_of_map = read_extra(document);
  }
  extra_ = read_extra(options());
  if (extra_.empty()) extra_ = std::move(extra_of_map);
  if (has_decoder) return;
  if (const auto added = read_json(directory / "added_tokens.json")) {
    read_added({escaped((directory / "added_tokens.json").string()), "", *added});
  }
}

TokenizerConfig::TokenizerConfig(std::string name, Json options)
    : name_(std::move(name)), options_(std::move(options)) {
  for (const char* const role : kRoles) roles_[role] = nullptr;
  read_roles(this->options());
}

void TokenizerConfig::read_decoder(const PartConfig& decoder) {
  for (const auto& [key, value] : decoder.node().items()) {
    const auto id = parse_number(key);
    if (!id) decoder.refuse(key, "expected an id as key, found " + in_quotes(key));
    by_id_[static_cast<std::int64_t>(std::min<std::size_t>(*id, kLargestTokenId))] =
        token_of(decoder.object(key));
  }
}

/// Reads the tokens of the roles: the members whose key ends in "_token".
void TokenizerConfig::read_roles(const PartConfig& document) {
  for (const auto& [key, value] : document.node().items()) {
    if (!key.ends_with("_token")) continue;
    if (is_usual(key) && !value.is_null() && !is_token(value)) {
      document.refuse(key, "expected a token, a string or an object with \"content\"");
    }
    if (!is_token(value)) continue;  // an option such as add_bos_token, which is not a role
    Json token = token_of(document.at(key));
    token["special"] = true;
    roles_[key] = std::move(token);
  }
}

/// Reads added_tokens.json: {"token": id, ...}.
void TokenizerConfig::read_added(const PartConfig& document) {
  std::set<std::string> special;
  for (const auto& [role, token] : roles_.items()) {
    if (is_usual(role) && !token.is_null()) special.insert(content_of(token));
  }
  for (const Json& token : extra_) special.insert(content_of(token));
  for (const auto& [content, value] : document.node().items()) {
    const bool is_special = special.contains(content);
    by_id_[document.integer(content)] = added_token(content, is_special, !is_special);
  }
}

std::string TokenizerConfig::token(std::string_view role) const {
  const auto found = roles_.find(std::string(role));
  return found == roles_.end() || found->is_null() ? std::string() : content_of(*found);
}

void TokenizerConfig::set_defaults(
    std::initializer_list<std::pair<std::string_view, std::string_view>> tokens) {
  for (const auto& [role, token] : tokens) {
    Json& value = roles_[std::string(role)];
    if (value.is_null()) value = added_token(token, true);
  }
}

std::vector<Json> TokenizerConfig::tokens() const {
  std::vector<Json> all;
  std::set<std::string> known;
  const auto add = [&](const Json& token) {
    if (!token.is_null() && known.insert(content_of(token)).second) all.push_back(token);
  };
  std::set<std::string> named;
  for (const Json& token : roles_) {
    if (!token.is_null()) named.insert(content_of(token));
  }
  for (const auto& [id, value] : by_id_) {
    Json token = value;
    if (named.contains(content_of(token))) token["special"] = true;
    add(token);
  }
  for (const Json& token : roles_) add(token);
  for (const Json& token : extra_) add(token);
  return all;
}

void add_tokens(TokenizerFile& file, const TokenizerConfig& config) {
  for (const char* role : {"sep_token", "eos_token"}) {
    if (std::string token = config.token(role); !token.empty()) file.separators.push_back(std::move(token));
  }
  std::set<std::string> known;
  if (file.document().has("added_tokens")) {
    for (const PartConfig& token : file.document().objects("added_tokens"))
      known.insert(token.string("content"));
  } else {
    file.parts["added_tokens"] = Json::array();
  }
  for (Json& token : config.tokens()) {
    if (!known.contains(content_of(token))) file.parts["added_tokens"].push_back(std::move(token));
  }
  check_vocabulary(file);
}

}  // namespace attnctl
