#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tokenizer/files/part_config.hpp"
#include "tokenizer/models/merge_list.hpp"
#include "tokenizer/models/token_table.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// What a model's tokenizer files say, in the terms of tokenizer.json whatever they were.
struct TokenizerFile {
  std::string name;                     // of the file, escaped
  std::vector<TokenEntry> vocabulary;   // /model/vocab in the order of the file
  std::optional<TokenTable> table;      // of it, made by check_vocabulary()
  MergeList merges;                     // /model/merges by rank
  nlohmann::ordered_json parts;         // the document without /model/vocab and /model/merges
  std::vector<std::string> separators;  // tokens that the files around it call sep_token and eos_token

  [[nodiscard]] PartConfig document() const { return {name, "", parts}; }
};

/// Reads tokenizer.json. Throws Error(bad_input).
[[nodiscard]] TokenizerFile read_tokenizer_json(const std::filesystem::path& path);

/// Reads what a model's directory has: tokenizer.json, else what stands for it (vocab.txt; vocab.json and
/// merges.txt; a SentencePiece model), with the added tokens of tokenizer_config.json and
/// special_tokens_map.json. nullopt where there is none of them. Throws Error(bad_input).
[[nodiscard]] std::optional<TokenizerFile> read_tokenizer_files(const std::filesystem::path& directory);

/// The same of a section of a weights file. Throws Error(bad_input).
[[nodiscard]] TokenizerFile read_section(const TokenizerSection& section);

/// Ids and tokens of a file, special ones marked.
[[nodiscard]] Vocabulary make_vocabulary(const TokenizerFile& file);

}  // namespace attnctl
