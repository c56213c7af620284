#include "tokenizer/files/tokenizer_config.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/text.hpp"
#include "formats/json.hpp"
#include "tokenizer/files/tokenizer_file.hpp"

namespace attnctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFileLimit = std::size_t{64} << 20U;
constexpr std::string_view kRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                       "pad_token", "cls_token", "mask_token"};

bool is_usual(std::string_view role) {
  return std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
}

/// Reads a token: an object with "content" and flags, or a string, which is a special token.
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

}  // namespace

TokenizerConfig::TokenizerConfig(const std::filesystem::path& directory) {
  for (const std::string_view role : kRoles) roles_.emplace_back(role, nullptr);
  const std::filesystem::path path = directory / "tokenizer_config.json";
  name_ = escaped(path.string());
  if (auto document = read_json(path)) options_ = std::move(*document);
  read_roles(options());
  if (options().has("added_tokens_decoder")) {
    read_decoder(options().object("added_tokens_decoder"));
  } else if (const auto map = read_json(directory / "special_tokens_map.json")) {
    const PartConfig document(escaped((directory / "special_tokens_map.json").string()), "", *map);
    read_roles(document);
    read_extra(document, "extra_special_tokens");
    if (extra_.empty()) read_extra(document, "additional_special_tokens");
  }
  std::vector<Json> from_map = std::exchange(extra_, {});
  read_extra(options(), "extra_special_tokens");
  if (extra_.empty()) read_extra(options(), "additional_special_tokens");
  if (extra_.empty()) extra_ = std::move(from_map);
  if (options().has("added_tokens_decoder")) return;
  if (const auto added = read_json(directory / "added_tokens.json")) {
    read_added({escaped((directory / "added_tokens.json").string()), "", *added});
  }
}

TokenizerConfig::TokenizerConfig(std::string name, Json options)
    : name_(std::move(name)), options_(std::move(options)) {
  for (const std::string_view role : kRoles) roles_.emplace_back(role, nullptr);
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

/// Reads the keys that end in _token.
void TokenizerConfig::read_roles(const PartConfig& document) {
  for (const auto& [key, value] : document.node().items()) {
    if (!key.ends_with("_token")) continue;
    if (is_usual(key) && !value.is_null() && !is_token(value)) {
      document.refuse(key, "expected a token, a string or an object with \"content\"");
    }
    if (!is_token(value)) continue;  // such as add_bos_token
    Json token = token_of(document.at(key));
    token["special"] = true;
    const auto place = std::find_if(roles_.begin(), roles_.end(),
                                    [&wanted = key](const auto& role) { return role.first == wanted; });
    if (place == roles_.end()) {
      roles_.emplace_back(key, std::move(token));
    } else {
      place->second = std::move(token);
    }
  }
}

/// Reads a list of tokens, or an object of roles.
void TokenizerConfig::read_extra(const PartConfig& document, std::string_view key) {
  if (!document.has(key)) return;
  const PartConfig extra = document.at(key);
  const auto add = [&](const PartConfig& value) {
    if (!is_token(value.node())) value.refuse("", "expected a token, a string or an object with \"content\"");
    extra_.push_back(token_of(value));
  };
  if (extra.node().is_object()) {
    for (const auto& [role, value] : extra.node().items()) add(extra.at(role));
  } else {
    for (const PartConfig& value : extra.elements()) add(value);
  }
}

/// Reads {"token": id, ...}.
void TokenizerConfig::read_added(const PartConfig& document) {
  std::set<std::string> special;
  for (const auto& [role, token] : roles_) {
    if (is_usual(role) && !token.is_null()) special.insert(content_of(token));
  }
  for (const Json& token : extra_) special.insert(content_of(token));
  for (const auto& [content, value] : document.node().items()) {
    const bool is_special = special.contains(content);
    by_id_[document.integer(content)] = added_token(content, is_special, !is_special);
  }
}

std::string TokenizerConfig::token(std::string_view role) const {
  for (const auto& [name, token] : roles_) {
    if (name == role && !token.is_null()) return content_of(token);
  }
  return {};
}

void TokenizerConfig::set_default(std::string_view role, std::string_view token) {
  for (auto& [name, value] : roles_) {
    if (name == role && value.is_null()) value = added_token(token, true);
  }
}

std::vector<Json> TokenizerConfig::tokens() const {
  std::vector<Json> all;
  std::set<std::string> known;
  const auto add = [&](const Json& token) {
    if (!token.is_null() && known.insert(content_of(token)).second) all.push_back(token);
  };
  std::set<std::string> named;
  for (const auto& [role, token] : roles_) {
    if (!token.is_null()) named.insert(content_of(token));
  }
  for (const auto& [id, value] : by_id_) {
    Json token = value;
    if (named.contains(content_of(token))) token["special"] = true;
    add(token);
  }
  for (const auto& [role, token] : roles_) add(token);
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
}

}  // namespace attnctl
