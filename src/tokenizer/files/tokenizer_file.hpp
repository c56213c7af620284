#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tokenizer/parts/part_config.hpp"
#include "tokenizer/token_table.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

inline constexpr std::uint64_t kLargestTokenId = 16'777'215;
inline constexpr std::size_t kLargestTokenizerFile = std::size_t{256} << 20U;  // bytes

/// The content of a model's tokenizer files, in the terms of tokenizer.json.
struct TokenizerFile {
  std::string name;                     // of the file, escaped
  std::vector<TokenEntry> vocabulary;   // /model/vocab in the order of the file
  std::optional<TokenTable> table;      // of `vocabulary`, made by check_vocabulary()
  MergeList merges;                     // /model/merges by rank
  nlohmann::ordered_json parts;         // the document without /model/vocab and /model/merges
  std::vector<std::string> separators;  // tokens that tokenizer_config.json calls sep_token and eos_token

  [[nodiscard]] PartConfig document() const { return {name, "", parts}; }
};

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
  /// Sets the tokens of roles that have none.
  void set_defaults(std::initializer_list<std::pair<std::string_view, std::string_view>> tokens);
  /// Returns all tokens as members of /added_tokens, in the order of the reference: by id, then those with a
  /// role, then the others.
  [[nodiscard]] std::vector<nlohmann::ordered_json> tokens() const;

 private:
  using Json = nlohmann::ordered_json;

  void read_decoder(const PartConfig& decoder);
  void read_roles(const PartConfig& document);
  void read_added(const PartConfig& document);

  std::string name_;
  Json options_ = Json::object();
  std::map<std::int64_t, Json> by_id_;
  Json roles_;  // tokens by role, or null; starts with the seven usual roles
  std::vector<Json> extra_;
};

/// What to read of the files. A vocabulary can be read even if other parts are not supported.
enum class Wanted { vocabulary, tokenizer };

/// Returns the paths in a model's directory that a tokenizer or a vocabulary is read from if they exist.
[[nodiscard]] std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& directory);

/// Reads a model's directory: tokenizer.json, or else vocab.txt, vocab.json with merges.txt, or a
/// SentencePiece model, with the added tokens of tokenizer_config.json and special_tokens_map.json. Returns
/// nullopt if there is none. Throws Error(bad_input).
[[nodiscard]] std::optional<TokenizerFile> read_tokenizer_files(const std::filesystem::path& directory,
                                                                Wanted wanted = Wanted::tokenizer);
[[nodiscard]] TokenizerFile read_section(const TokenizerSection& section, Wanted wanted = Wanted::tokenizer);
[[nodiscard]] Vocabulary make_vocabulary(const TokenizerFile& file);

/// A SentencePiece model: the fields of sentencepiece_model.proto that tokenizing needs, with their defaults.
struct SentencePieceModel {
  enum class Type : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::normal;
  };
  enum class Algorithm : std::uint8_t { unigram = 1, bpe, word, character };

  std::vector<Piece> pieces;  // by id
  Algorithm algorithm = Algorithm::unigram;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  std::string charsmap;  // bytes of the precompiled charsmap; empty: none
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

/// Parses the protobuf message; `file` is escaped. Throws Error(bad_input).
[[nodiscard]] SentencePieceModel parse_sentencepiece(const std::string& file, std::string_view bytes);

// Readers of single layouts, which throw Error(bad_input). `name` is escaped.
[[nodiscard]] TokenizerFile parse_tokenizer_json(std::string name, std::string_view text);
[[nodiscard]] TokenizerFile read_tokenizer_json(const std::filesystem::path& path, TokenizerConfig& config,
                                                Wanted wanted);
[[nodiscard]] TokenizerFile read_vocab_txt(const std::filesystem::path& path, TokenizerConfig& config,
                                           Wanted wanted);
[[nodiscard]] TokenizerFile read_vocab_json(const std::filesystem::path& path, TokenizerConfig& config,
                                            Wanted wanted);
[[nodiscard]] TokenizerFile read_sentencepiece(const std::filesystem::path& path, TokenizerConfig& config,
                                               Wanted wanted);
[[nodiscard]] TokenizerFile make_sentencepiece(std::string name, const SentencePieceModel& model,
                                               TokenizerConfig& config, Wanted wanted);

/// Reads a JSON number with the rounding of the reference (serde_json): the digits that fit 64 bits and the
/// power of ten are rounded separately, so the last bit may differ from the nearest double. The scores of a
/// Unigram model need this, because the last bit decides ties. Returns infinity if the number is out of
/// range.
[[nodiscard]] double read_score(std::string_view digits);

/// Makes the table of the vocabulary and gives each added token its id as the reference does: that of the
/// same token in the vocabulary, or the next free number, whatever the file says. Throws Error(bad_input) if
/// a token or an id is repeated, or if the ids are far larger than the number of tokens.
void check_vocabulary(TokenizerFile& file);

/// Adds the tokens of `config` that the file lacks, sets its separators, and checks the vocabulary.
void add_tokens(TokenizerFile& file, const TokenizerConfig& config);

/// Throws Error(bad_input) if the directory names a "tokenizer_class" (without "Fast") that is not supported.
void check_class(const TokenizerConfig& config, std::string_view layout,
                 const std::vector<std::string_view>& supported);

/// Returns a member of /added_tokens. check_vocabulary() sets its id.
[[nodiscard]] nlohmann::ordered_json added_token(std::string_view content, bool special,
                                                 bool normalized = false);

/// Returns the id of a token in the vocabulary or among the added tokens, after check_vocabulary().
[[nodiscard]] std::uint64_t id_of(const TokenizerFile& file, std::string_view token);

/// A piece of a TemplateProcessing: "$A", "$B" or a token.
struct TemplatePiece {
  std::string piece;
  unsigned type_id = 0;
};
[[nodiscard]] nlohmann::ordered_json make_template(const TokenizerFile& file,
                                                   const std::vector<TemplatePiece>& single,
                                                   const std::vector<TemplatePiece>& pair);
/// Returns a TemplateProcessing with bos_token before each text if add_bos_token is true, and eos_token after
/// it if add_eos_token or `ends` is.
[[nodiscard]] nlohmann::ordered_json make_template(const TokenizerFile& file, const TokenizerConfig& config,
                                                   bool ends = false);

/// Returns the decoder of byte-level models.
[[nodiscard]] nlohmann::ordered_json byte_level_decoder();

}  // namespace attnctl
