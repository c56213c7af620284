#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/parts/part_config.hpp"

namespace attnctl {

/// The options and tokens of tokenizer_config.json. If it has no added_tokens_decoder, also those of
/// special_tokens_map.json, whose roles override it, and of added_tokens.json. Never evaluates a chat
/// template.
class TokenizerConfig {
 public:
  /// Throws Error(bad_input).
  explicit TokenizerConfig(const std::filesystem::path& directory);
  /// Options from another file; `name` is escaped.
  TokenizerConfig(std::string name, nlohmann::ordered_json options);

  /// Returns tokenizer_config.json, or an empty object.
  [[nodiscard]] PartConfig options() const { return {name_, "", options_}; }
  /// Returns the token of a role such as "cls_token", or an empty string.
  [[nodiscard]] std::string token(std::string_view role) const;
  /// Sets the token of a role that has none.
  void set_default(std::string_view role, std::string_view token);
  /// Returns all tokens as members of /added_tokens, in the order of the reference: by id, then those with a
  /// role, then the others.
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
  std::vector<std::pair<std::string, Json>> roles_;  // starts with the seven usual ones
  std::vector<Json> extra_;
};

/// Adds the tokens of `config` that the file lacks, and sets its separators. Throws Error(bad_input).
void add_tokens(TokenizerFile& file, const TokenizerConfig& config);

}  // namespace attnctl
