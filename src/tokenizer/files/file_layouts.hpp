#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/files/sentencepiece_proto.hpp"
#include "tokenizer/files/tokenizer_config.hpp"
#include "tokenizer/files/tokenizer_file.hpp"

namespace attnctl {

/// What is wanted of a tokenizer's files. A vocabulary can be read where the text's way to it is not known.
enum class Wanted { vocabulary, tokenizer };

// The layouts of files beside tokenizer.json, one a file. Each names the file, gives vocabulary and merges
// and, where a tokenizer is wanted, the parts that the reference gives such a model. All throw
// Error(bad_input).
[[nodiscard]] TokenizerFile read_vocab_txt(const std::filesystem::path& path, TokenizerConfig& config,
                                           Wanted wanted);
[[nodiscard]] TokenizerFile read_vocab_json(const std::filesystem::path& path, TokenizerConfig& config,
                                            Wanted wanted);
[[nodiscard]] TokenizerFile read_sentencepiece(const std::filesystem::path& path, TokenizerConfig& config,
                                               Wanted wanted);
/// What a SentencePiece model makes, wherever it was stored; `name` is escaped.
[[nodiscard]] TokenizerFile make_sentencepiece(std::string name, const SentencePieceModel& model,
                                               TokenizerConfig& config, Wanted wanted);
/// A section of a weights file, which is no file of its own.
[[nodiscard]] TokenizerFile read_section(const TokenizerSection& section, Wanted wanted);
/// As read_tokenizer_json, without its checks.
[[nodiscard]] TokenizerFile parse_tokenizer_json(const std::filesystem::path& path);
[[nodiscard]] TokenizerFile parse_tokenizer_json(std::string name, std::string_view text);

/// Refuses a directory whose "tokenizer_class" (without "Fast") is none of those that a layout is read for.
void check_class(const TokenizerConfig& config, std::string_view layout,
                 const std::vector<std::string_view>& supported);

/// The id of a token that the file has, as the vocabulary's or an added one; check_vocabulary() was called.
[[nodiscard]] std::uint64_t id_of(const TokenizerFile& file, std::string_view token);

/// A TemplateProcessing: pieces are "$A", "$B" or tokens, with their type ids.
struct TemplatePiece {
  std::string piece;
  unsigned type_id = 0;
};
[[nodiscard]] nlohmann::ordered_json make_template(const TokenizerFile& file,
                                                   const std::vector<TemplatePiece>& single,
                                                   const std::vector<TemplatePiece>& pair);
/// The same for tokens before and after each text, where one of them may be empty.
[[nodiscard]] nlohmann::ordered_json make_template(const TokenizerFile& file, const std::string& before,
                                                   const std::string& after);

}  // namespace attnctl
