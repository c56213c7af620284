#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tokenizer/files/part_config.hpp"
#include "tokenizer/files/tokenizer_file.hpp"

namespace attnctl {

/// What stands beside a tokenizer's file: options and tokens of tokenizer_config.json; where that has no
/// added_tokens_decoder, special_tokens_map.json, which goes before it, and added_tokens.json. A chat
/// template in it is text that is never evaluated.
class TokenizerConfig {
 public:
  /// Throws Error(bad_input).
  explicit TokenizerConfig(const std::filesystem::path& directory);
  /// Options that stand in no file of their own; `name` is escaped.
  TokenizerConfig(std::string name, nlohmann::ordered_json options);

  /// tokenizer_config.json; an empty object where there is none.
  [[nodiscard]] PartConfig options() const { return {name_, "", options_}; }
  /// The token of a role such as "cls_token"; empty where none is named.
  [[nodiscard]] std::string token(std::string_view role) const;
  /// Names a token for a role that has none.
  void set_default(std::string_view role, std::string_view token);
  /// All tokens that are named, in the terms of /added_tokens and in the reference's order: by id, then those
  /// with a role, then the others.
  [[nodiscard]] std::vector<nlohmann::ordered_json> tokens() const;

 private:
  using Json = nlohmann::ordered_json;

  void read_decoder(const PartConfig& decoder);
  void read_roles(const PartConfig& document);
  void read_extra(const PartConfig& document, std::string_view key);
  void read_added(const PartConfig& document);

  std::string name_;
  Json options_ = Json::object();
  std::map<std::int64_t, Json> by_id_;
  std::vector<std::pair<std::string, Json>> roles_;  // the seven usual ones first
  std::vector<Json> extra_;
};

/// Adds the tokens that the tokenizer's file does not have itself, and notes those that separate texts.
/// Throws Error(bad_input).
void add_tokens(TokenizerFile& file, const TokenizerConfig& config);

}  // namespace attnctl
