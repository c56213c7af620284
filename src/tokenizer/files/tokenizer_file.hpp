#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tokenizer/parts/part_config.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::tokenizer {

inline constexpr std::uint64_t kLargestTokenId = 16'777'215;
inline constexpr std::size_t kLargestTokenizerFile = std::size_t{256} << 20U;  // in bytes

/// A model's tokenizer files. Other file formats are converted to the structure of tokenizer.json.
struct TokenizerFile {  // NOLINT(bugprone-exception-escape): its move constructor throws nothing
  std::string name;     // file name, escaped
  std::vector<TokenEntry> vocabulary;  // the tokens of /model/vocab, in the order of the file
  std::optional<TokenTable> table;     // table of `vocabulary`, set by check_vocabulary()
  MergeList merges;                    // the merges of /model/merges, by rank
  std::vector<AddedToken> added_tokens;
  nlohmann::ordered_json parts;         // the JSON document without /model/vocab and /model/merges
  std::vector<std::string> separators;  // the tokens with the roles sep_token and eos_token
  std::string mask;                     // the token with the role mask_token; empty: none

  [[nodiscard]] PartConfig document() const { return {name, "", parts}; }
};

/// The options and the added tokens of tokenizer_config.json. special_tokens_map.json and added_tokens.json
/// are read only if tokenizer_config.json has no added_tokens_decoder. Then the roles (such as "cls_token")
/// in special_tokens_map.json override those in tokenizer_config.json, but extra special tokens in
/// tokenizer_config.json override those in special_tokens_map.json. Chat templates are never evaluated.
class TokenizerConfig {
 public:
  /// Reads the files in a model's directory. Throws Error(bad_input) if a file is invalid.
  explicit TokenizerConfig(const std::filesystem::path& directory);
  /// Uses options that come from another file, whose escaped name is `name`. Reads no files.
  TokenizerConfig(std::string name, nlohmann::ordered_json options);

  /// Returns the options; an empty object if tokenizer_config.json does not exist.
  [[nodiscard]] PartConfig options() const { return {name_, "", options_}; }
  /// Returns the token with a role such as "cls_token"; an empty string if there is none.
  [[nodiscard]] std::string token(std::string_view role) const;
  /// Sets the tokens of roles that have none. An element of `tokens` is a role and a token.
  void set_defaults(std::initializer_list<std::pair<std::string_view, std::string_view>> tokens);
  /// Returns all tokens in the order of Hugging Face tokenizers: tokens with an id by id, then tokens with a
  /// role, then the others. A token may occur several times.
  [[nodiscard]] std::vector<AddedToken> tokens() const;

 private:
  std::optional<AddedToken>& token_of_role(const std::string& role);  // adds the role if it is new
  void read_roles(const PartConfig& document);
  void read_added(const PartConfig& document);

  std::string name_;
  nlohmann::ordered_json options_;
  std::map<std::int64_t, AddedToken> by_id_;
  // The token of each role, in the order of insertion, the seven usual roles first; nullopt: no token.
  std::vector<std::pair<std::string, std::optional<AddedToken>>> roles_;
  std::unordered_map<std::string, std::size_t> role_indices_;  // role -> index in `roles_`
  std::vector<AddedToken> extra_;
};

/// What to read. If only the vocabulary is wanted, unsupported normalizers and other parts are not errors.
enum class Wanted { vocabulary, tokenizer };

/// Returns the paths of all tokenizer files that a model's directory may contain. They need not exist.
[[nodiscard]] std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& directory);

/// Reads the tokenizer in a weights file, or the first that exists of the tokenizer files in a model's
/// directory, and the added tokens of TokenizerConfig. Returns nullopt if no tokenizer file exists. Throws
/// Error(bad_input) if a file is invalid or, with Wanted::tokenizer, not supported.
[[nodiscard]] std::optional<TokenizerFile> read_tokenizer_file(const TokenizerOrigin& origin,
                                                               Wanted wanted = Wanted::tokenizer);
/// Returns the vocabulary of a file, with its added tokens. [PAD], [UNK], [CLS], [MASK] and the separators
/// (see Vocabulary::is_separator) are special even if the file does not say so.
[[nodiscard]] Vocabulary make_vocabulary(const TokenizerFile& file);

/// A SentencePiece model: the fields of sentencepiece_model.proto that tokenizing needs, with defaults.
struct SentencePieceModel {
  using Type = formats::TokenizerSection::Type;
  struct ScoredPiece {
    std::string text;
    float score = 0;
    Type type = Type::normal;
  };
  enum class Algorithm : std::uint8_t { unigram = 1, bpe, word, character };

  std::vector<ScoredPiece> pieces;  // the index is the id
  Algorithm algorithm = Algorithm::unigram;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  std::string charsmap;  // bytes of the precompiled charsmap (Charsmap); empty: none
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// Functions that read one tokenizer file format each. `name` is the file's escaped name. They throw
// Error(bad_input) if the file is invalid or, with Wanted::tokenizer, not supported. parse_tokenizer_json()
// does not read the added tokens and does not call check_vocabulary().
using ReadFile = TokenizerFile(const std::filesystem::path& path, TokenizerConfig& config, Wanted wanted);
ReadFile read_tokenizer_json, read_vocab_txt, read_vocab_json, read_sentencepiece;
[[nodiscard]] TokenizerFile parse_tokenizer_json(std::string name, std::string_view text);
[[nodiscard]] SentencePieceModel parse_sentencepiece(const std::string& name, std::string_view bytes);
[[nodiscard]] TokenizerFile make_sentencepiece(std::string name, const SentencePieceModel& model,
                                               TokenizerConfig& config, Wanted wanted);
[[nodiscard]] TokenizerFile read_section(const formats::TokenizerSection& section, Wanted wanted);

/// Reads /added_tokens of tokenizer.json. Throws Error(bad_input) if an element is invalid or, with
/// Wanted::tokenizer, lacks a flag such as "special".
[[nodiscard]] std::vector<AddedToken> read_added_tokens(const PartConfig& document, Wanted wanted);

/// Parses a JSON file whose content must be an object. Throws Error(bad_input) if the file is invalid.
[[nodiscard]] nlohmann::ordered_json read_json_object(const std::filesystem::path& path);

/// Converts a JSON number to double with the same rounding as the Rust library serde_json, which Hugging Face
/// tokenizers use. The leading digits that fit 64 bits and the power of ten are rounded separately, so that
/// the last bit may differ from the nearest double. Scores of Unigram models need this rounding, because the
/// last bit may decide between tokenizations with almost equal scores. The result may be infinite or 0.
[[nodiscard]] double read_score(std::string_view digits);

/// Sets `file.table` and the id of each added token. As in Hugging Face tokenizers, ids of added tokens in
/// the file are ignored: an added token has the id of the same token in the vocabulary. Added tokens that
/// are not in the vocabulary are numbered in order, from the number of tokens in the vocabulary on. Of added
/// tokens with equal content, keeps the last. Drops added tokens without content. Throws Error(bad_input) if
/// an id of the vocabulary occurs twice, if a token of the vocabulary occurs twice (except in Unigram
/// models), or if an id of the vocabulary is at least 2^20 and at least four times the vocabulary's size.
void check_vocabulary(TokenizerFile& file);

/// Adds the new tokens of `config` to file.added_tokens, sets file.separators and file.mask, calls
/// check_vocabulary().
void add_tokens(TokenizerFile& file, const TokenizerConfig& config);

/// Throws Error(bad_input) if `config` has a "tokenizer_class" that, without a final "Fast", is not in
/// `supported`. `layout` names the file format in the message.
void check_class(const TokenizerConfig& config, std::string_view layout,
                 const std::vector<std::string_view>& supported);

/// Returns the id of an added token or of a token of the vocabulary; 2^64 - 1 if there is none.
/// check_vocabulary() must have been called.
[[nodiscard]] std::uint64_t id_of(const TokenizerFile& file, std::string_view token);

/// Returns the JSON of a TemplateProcessing post-processor that puts the token `before` before each text and
/// the token `after` after each text (nullopt: no token). If `once` is true, only the first text of a pair
/// gets `before`.
[[nodiscard]] nlohmann::ordered_json make_template(const TokenizerFile& file,
                                                   const std::optional<std::string>& before,
                                                   const std::optional<std::string>& after, bool once);
/// Returns the JSON of a TemplateProcessing post-processor that puts the bos_token before each text if the
/// option add_bos_token is true, and the eos_token after each text if the option add_eos_token or `ends` is
/// true. Omits a token that `config` lacks.
[[nodiscard]] nlohmann::ordered_json make_template(const TokenizerFile& file, const TokenizerConfig& config,
                                                   bool ends = false);

}  // namespace attnctl::tokenizer
