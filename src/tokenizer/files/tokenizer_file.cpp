#include "tokenizer/files/tokenizer_file.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/text.hpp"
#include "formats/json.hpp"

namespace attnctl::tokenizer {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

bool is_usual(std::string_view role) {
  return std::ranges::find(kRoles, role) != std::end(kRoles);
}

AddedToken token_of(const PartConfig& value) {
  if (value.node().is_string()) return {.content = value.node().get<std::string>(), .special = true};
  const bool special = value.boolean("special", false);
  return {.content = value.string("content"),
          .special = special,
          .normalized = value.boolean("normalized", !special),
          .lstrip = value.boolean("lstrip", false),
          .rstrip = value.boolean("rstrip", false),
          .single_word = value.boolean("single_word", false)};
}

bool is_token(const Json& value) {
  return value.is_string() || (value.is_object() && value.contains("content"));
}

Json read_optional(const std::filesystem::path& path) {
  return std::filesystem::exists(path) ? read_json_object(path) : Json::object();
}

constexpr std::string_view kNeedsToken = "expected a token: a string or an object with \"content\"";

/// Returns the tokens under extra_special_tokens or, if there are none, under additional_special_tokens. The
/// value is a list of tokens, or an object from roles to tokens.
std::vector<AddedToken> read_extra(const PartConfig& document) {
  for (const char* const key : {"extra_special_tokens", "additional_special_tokens"}) {
    if (!document.has(key)) continue;
    std::vector<AddedToken> tokens;
    const auto add = [&](const PartConfig& value) {
      if (!is_token(value.node())) value.refuse("", kNeedsToken);
      tokens.push_back(token_of(value));
    };
    const PartConfig extra = document.at(key);
    if (extra.node().is_object()) {
      for (const auto& [role, value] : extra.node().items()) add(extra.at(role));
    } else {
      std::ranges::for_each(extra.elements(), add);
    }
    if (!tokens.empty()) return tokens;
  }
  return {};
}

/// The tokenizer files, and the functions that read them, in order of preference.
constexpr std::pair<std::string_view, ReadFile*> kFileReaders[] = {
    {"tokenizer.json", read_tokenizer_json}, {"vocab.txt", read_vocab_txt},
    {"vocab.json", read_vocab_json},         {"tokenizer.model", read_sentencepiece},
    {"spiece.model", read_sentencepiece},    {"sentencepiece.bpe.model", read_sentencepiece},
};

[[noreturn]] void refuse_vocabulary(const TokenizerFile& file, const std::string& what) {
  PartConfig(file.name, "/model/vocab", file.parts).refuse("", what);
}

void check_ids(const TokenizerFile& file) {
  // Ids may be unused, but a table of all ids must not be far larger than the vocabulary.
  const std::size_t limit = std::max<std::size_t>(std::size_t{1} << 20U, file.vocabulary.size() * 4);
  std::vector<const std::string*> tokens;
  for (const auto& entry : file.vocabulary) {
    const auto id = static_cast<std::size_t>(entry.id);
    if (id >= limit) {
      refuse_vocabulary(file, fmt::format("got id {} for {}, need ids below {} (number of tokens: {})", id,
                                          in_quotes(entry.token), limit, file.vocabulary.size()));
    }
    if (id >= tokens.size()) tokens.resize(id + 1);
    if (tokens[id] != nullptr) {
      refuse_vocabulary(file, fmt::format("got id {} for {} and for {}; each token needs its own id", id,
                                          in_quotes(*tokens[id]), in_quotes(entry.token)));
    }
    tokens[id] = &entry.token;
  }
}

/// Sets the ids of the added tokens (see check_vocabulary). `next` is the id of the first added token that is
/// not in the vocabulary.
void number_added_tokens(TokenizerFile& file, std::size_t next) {
  std::vector<AddedToken> numbered;
  std::unordered_map<std::string, std::size_t> indices;  // content -> index in `numbered`
  for (AddedToken& token : file.added_tokens) {
    if (token.content.empty()) continue;
    const auto [index, is_new] = indices.try_emplace(token.content, numbered.size());
    if (is_new) {
      const std::int32_t known = file.table->find(token.content);
      token.id = known >= 0 ? known : static_cast<std::int32_t>(next++);
      numbered.push_back(std::move(token));
    } else {
      token.id = numbered[index->second].id;
      numbered[index->second] = std::move(token);
    }
  }
  file.added_tokens = std::move(numbered);
}

}  // namespace

std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& [name, read] : kFileReaders) files.push_back(directory / name);
  for (const char* const name :
       {"merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"})
    files.push_back(directory / name);
  return files;
}

std::optional<TokenizerFile> read_tokenizer_file(const TokenizerOrigin& origin, Wanted wanted) {
  if (origin.section != nullptr) return read_section(*origin.section, wanted);
  for (const auto& [name, read] : kFileReaders) {
    if (!std::filesystem::exists(origin.directory / name)) continue;
    TokenizerConfig config(origin.directory);
    return read(origin.directory / name, config, wanted);
  }
  return std::nullopt;
}

Vocabulary read_vocabulary(const TokenizerOrigin& origin) {
  const auto file = read_tokenizer_file(origin, Wanted::vocabulary);
  return file ? make_vocabulary(*file) : Vocabulary();
}

Vocabulary make_vocabulary(const TokenizerFile& file) {
  std::vector<std::string> tokens;
  const auto put = [&](std::int32_t id, const std::string& token) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= tokens.size()) tokens.resize(index + 1);
    tokens[index] = token;
  };
  for (const auto& entry : file.vocabulary) put(entry.id, entry.token);
  std::set<std::int64_t> special;
  for (const AddedToken& added : file.added_tokens) {
    put(added.id, added.content);
    if (added.special) special.insert(added.id);
  }
  Vocabulary vocabulary(std::move(tokens), std::move(special), file.separators, file.mask);
  for (const std::string_view token : {"[PAD]", "[UNK]", "[CLS]", "[MASK]"}) {
    if (const auto id = vocabulary.id(token)) vocabulary.mark_special(*id);
  }
  return vocabulary;
}

void check_vocabulary(TokenizerFile& file) {
  file.table.emplace(file.vocabulary);
  // In a Unigram model, ids are positions in the list, so that a token may occur twice.
  const bool by_place = file.parts["model"]["type"] == "Unigram";
  if (!by_place && file.table->size() < file.vocabulary.size()) {
    std::unordered_set<std::string_view> known;
    const auto repeated = std::ranges::find_if_not(
        file.vocabulary, [&](const TokenEntry& entry) { return known.insert(entry.token).second; });
    refuse_vocabulary(
        file, fmt::format("got the token {} twice; need different tokens", in_quotes(repeated->token)));
  }
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

std::uint64_t id_of(const TokenizerFile& file, std::string_view token) {
  const auto added = std::ranges::find(file.added_tokens, token, &AddedToken::content);
  return static_cast<std::uint64_t>(added != file.added_tokens.end() ? added->id : file.table->find(token));
}

Json make_template(const TokenizerFile& file, const std::optional<std::string>& before,
                   const std::optional<std::string>& after, bool once) {
  Json tokens = Json::object();
  Json single = Json::array();
  Json pair = Json::array();
  const auto add = [&](const std::optional<std::string>& token, unsigned text) {
    if (!token) return;
    tokens[*token] = {{"id", *token}, {"ids", {id_of(file, *token)}}, {"tokens", {*token}}};
    pair.push_back({{"SpecialToken", {{"id", *token}, {"type_id", text}}}});
  };
  for (const unsigned text : {0U, 1U}) {
    if (text == 0 || !once) add(before, text);
    pair.push_back({{"Sequence", {{"id", text == 0 ? "A" : "B"}, {"type_id", text}}}});
    add(after, text);
    if (text == 0) single = pair;
  }
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(tokens)}};
}

Json make_template(const TokenizerFile& file, const TokenizerConfig& config, bool ends) {
  const auto token_if = [&](bool is_added, const char* role) {
    const std::string token = config.token(role);
    return is_added && !token.empty() ? std::optional(token) : std::nullopt;
  };
  const auto before = token_if(config.options().boolean("add_bos_token", false), "bos_token");
  const auto after = token_if(ends || config.options().boolean("add_eos_token", false), "eos_token");
  return make_template(file, before, after, false);
}

std::vector<AddedToken> read_added_tokens(const PartConfig& document, Wanted wanted) {
  std::vector<AddedToken> tokens;
  if (!document.has("added_tokens")) return tokens;
  for (const PartConfig& token : document.objects("added_tokens")) {
    for (const char* const flag : {"special", "normalized", "lstrip", "rstrip", "single_word"}) {
      if (wanted == Wanted::tokenizer) (void)token.boolean(flag);  // throws if the flag is missing
    }
    tokens.push_back(token_of(token));
  }
  return tokens;
}

Json read_json_object(const std::filesystem::path& path) {
  Json document =
      formats::parse_json(path.string(), read_file(path, kLargestTokenizerFile, Status::bad_input));
  if (!document.is_object()) {
    refuse(escaped(path.string()), "top level: expected an object");
  }
  return document;
}

TokenizerConfig::TokenizerConfig(const std::filesystem::path& directory)
    : TokenizerConfig(escaped((directory / "tokenizer_config.json").string()),
                      read_optional(directory / "tokenizer_config.json")) {
  if (options().has("added_tokens_decoder")) {
    const PartConfig decoder = options().object("added_tokens_decoder");
    for (const auto& [key, value] : decoder.node().items()) {
      const auto id = parse_number(key);
      if (!id) decoder.refuse(key, "expected an id as key, found " + in_quotes(key));
      by_id_[static_cast<std::int64_t>(std::min<std::size_t>(*id, kLargestTokenId))] =
          token_of(decoder.object(key));
    }
    extra_ = read_extra(options());
    return;
  }
  const std::filesystem::path map_path = directory / "special_tokens_map.json";
  const Json map = read_optional(map_path);
  const PartConfig document(escaped(map_path.string()), "", map);
  read_roles(document);
  std::vector<AddedToken> extra_of_map = read_extra(document);
  extra_ = read_extra(options());
  if (extra_.empty()) extra_ = std::move(extra_of_map);
  const std::filesystem::path added_path = directory / "added_tokens.json";
  const Json added = read_optional(added_path);
  read_added({escaped(added_path.string()), "", added});
}

TokenizerConfig::TokenizerConfig(std::string name, Json options)
    : name_(std::move(name)), options_(std::move(options)) {
  for (const char* const role : kRoles) (void)token_of_role(role);
  read_roles(this->options());
}

std::optional<AddedToken>& TokenizerConfig::token_of_role(const std::string& role) {
  const auto [index, is_new] = role_indices_.try_emplace(role, roles_.size());
  if (is_new) roles_.emplace_back(role, std::nullopt);
  return roles_[index->second].second;
}

void TokenizerConfig::read_roles(const PartConfig& document) {
  for (const auto& [key, value] : document.node().items()) {
    if (!key.ends_with("_token")) continue;
    if (is_token(value)) {
      token_of_role(key) = token_of(document.at(key));
      token_of_role(key)->special = true;
    } else if (is_usual(key) && !value.is_null()) {  // not an option such as add_bos_token
      document.refuse(key, kNeedsToken);
    }
  }
}

/// Reads added_tokens.json: {"token": id, ...}.
void TokenizerConfig::read_added(const PartConfig& document) {
  std::set<std::string> special;
  for (const auto& [role, token] : roles_) {
    if (is_usual(role) && token) special.insert(token->content);
  }
  for (const AddedToken& token : extra_) special.insert(token.content);
  for (const auto& [content, value] : document.node().items()) {
    const bool is_special = special.contains(content);
    by_id_[document.integer(content)] = {
        .content = content, .special = is_special, .normalized = !is_special};
  }
}

std::string TokenizerConfig::token(std::string_view role) const {
  const auto found = role_indices_.find(std::string(role));
  if (found == role_indices_.end() || !roles_[found->second].second) return {};
  return roles_[found->second].second->content;
}

void TokenizerConfig::set_defaults(
    std::initializer_list<std::pair<std::string_view, std::string_view>> tokens) {
  for (const auto& [name, token] : tokens) {
    std::optional<AddedToken>& known = token_of_role(std::string(name));
    if (!known) known = AddedToken{.content = std::string(token), .special = true};
  }
}

std::vector<AddedToken> TokenizerConfig::tokens() const {
  std::vector<AddedToken> all;
  std::set<std::string> named;
  for (const auto& [role, token] : roles_) {
    if (token) named.insert(token->content);
  }
  for (const auto& [id, token] : by_id_) {
    all.push_back(token);
    if (named.contains(token.content)) all.back().special = true;
  }
  for (const auto& [role, token] : roles_) {
    if (token) all.push_back(*token);
  }
  all.insert(all.end(), extra_.begin(), extra_.end());
  return all;
}

void add_tokens(TokenizerFile& file, const TokenizerConfig& config) {
  for (const char* role : {"sep_token", "eos_token"}) {
    if (std::string token = config.token(role); !token.empty()) file.separators.push_back(std::move(token));
  }
  file.mask = config.token("mask_token");
  std::set<std::string> known;
  for (const AddedToken& token : file.added_tokens) known.insert(token.content);
  for (AddedToken& token : config.tokens()) {
    if (known.insert(token.content).second) file.added_tokens.push_back(std::move(token));
  }
  check_vocabulary(file);
}

}  // namespace attnctl::tokenizer
