#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "tokenizer/files/tokenizer_file.hpp"

// Tokenizers in GGUF files.
namespace attnctl {
namespace {

using Json = nlohmann::ordered_json;
using Type = TokenizerSection::Type;

/// A named normalizer and pre-tokenizer of byte-level BPE; tokenizer.json has them in full.
struct PreTokenizerRow {
  std::vector<std::string_view> names;  // in tokenizer.ggml.pre
  std::string_view words = {};          // regular expression; empty: that of GPT-2
  bool digits = false;                  // isolate each digit first
  bool nfc = false;                     // normalize to NFC
  bool ignore_merges = false;           // take a word of the vocabulary whole
  bool add_bos = false;                 // default of tokenizer.ggml.add_bos_token
};

const std::vector<PreTokenizerRow>& rows() {
  static const std::vector<PreTokenizerRow> kRows = {
      {.names = {"", "default", "gpt-2", "phi-2"}},
      {.names = {"smollm", "starcoder", "refact"}, .digits = true},
      {.names = {"qwen2", "deepseek-r1-qwen"},
       .words = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
                R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
       .nfc = true},
      {.names = {"llama-bpe", "llama3", "llama-v3"},
       .words =
           R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
           R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
       .ignore_merges = true,
       .add_bos = true},
  };
  return kRows;
}

const PreTokenizerRow& row_of(const TokenizerSection& section) {
  std::vector<std::string_view> known;
  for (const PreTokenizerRow& row : rows()) {
    if (std::find(row.names.begin(), row.names.end(), section.pre) != row.names.end()) return row;
    std::copy_if(row.names.begin(), row.names.end(), std::back_inserter(known),
                 [](std::string_view name) { return !name.empty(); });
  }
  fail(Status::bad_input,
       "{}: metadata \"tokenizer.ggml.pre\": unsupported {}, supported: {}; give --ids instead of text",
       section.file, in_quotes(section.pre), fmt::join(known, ", "));
}

/// Returns the options of a section as tokenizer_config.json has them.
TokenizerConfig config_of(const TokenizerSection& section, bool add_bos) {
  Json options = {{"add_bos_token", section.add_bos.value_or(add_bos)},
                  {"add_eos_token", section.add_eos.value_or(false)}};
  for (const auto& [role, id] : section.roles) options[std::string(role)] = section.tokens[id];
  return {section.file, std::move(options)};
}

TokenizerFile read_pieces(const TokenizerSection& section, Wanted wanted) {
  SentencePieceModel model;
  model.algorithm = SentencePieceModel::Algorithm::bpe;
  model.add_dummy_prefix = section.add_space_prefix.value_or(true);
  model.remove_extra_whitespaces = section.remove_extra_whitespaces.value_or(false);
  for (std::size_t id = 0; id < section.tokens.size(); ++id) {
    const Type type = section.types[id] == Type::undefined ? Type::normal : section.types[id];
    model.pieces.push_back({section.tokens[id], section.scores.empty() ? 0 : section.scores[id],
                            static_cast<SentencePieceModel::Type>(type)});
    model.byte_fallback = model.byte_fallback || type == Type::byte;
  }
  TokenizerConfig config = config_of(section, true);
  return make_sentencepiece(section.file, model, config, wanted);
}

void read_merges(const TokenizerSection& section, TokenizerFile& file) {
  for (std::size_t i = 0; i < section.merges.size(); ++i) {
    if (file.merges.add_line(section.merges[i], 1)) continue;  // the first token may be a space
    fail(Status::bad_input,
         "{}: metadata \"tokenizer.ggml.merges\": merge {}: got {}, need two tokens with a space between",
         section.file, i, in_quotes(section.merges[i]));
  }
}

void set_text_parts(const PreTokenizerRow& row, TokenizerFile& file) {
  if (row.nfc) file.parts["normalizer"] = {{"type", "NFC"}};
  const bool plain = row.words.empty();
  Json steps = Json::array();
  if (row.digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  if (!plain) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", row.words}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back(
      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", plain}});
  file.parts["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
  file.parts["decoder"] = byte_level_decoder();
  file.parts["model"]["ignore_merges"] = row.ignore_merges;
}

TokenizerFile read_bytes(const TokenizerSection& section, Wanted wanted) {
  TokenizerFile file;
  file.name = section.file;
  Json added = Json::array();
  for (std::size_t id = 0; id < section.tokens.size(); ++id) {
    const std::string& token = section.tokens[id];
    file.vocabulary.push_back({token, static_cast<std::int32_t>(id), 0});
    const bool special = section.types[id] == Type::control || section.types[id] == Type::unknown;
    if (!special && section.types[id] != Type::user_defined) continue;
    added.push_back(added_token(token, special));
  }
  file.parts["model"]["type"] = "BPE";
  file.parts["added_tokens"] = std::move(added);
  const PreTokenizerRow* const row = wanted == Wanted::tokenizer ? &row_of(section) : nullptr;
  const TokenizerConfig config = config_of(section, row != nullptr && row->add_bos);
  add_tokens(file, config);
  if (row == nullptr) return file;
  read_merges(section, file);
  set_text_parts(*row, file);
  file.parts["post_processor"] = make_template(file, config);
  return file;
}

}  // namespace

TokenizerFile read_section(const TokenizerSection& section, Wanted wanted) {
  if (section.model == "llama") return read_pieces(section, wanted);
  // The ids and tokens of any model can be read.
  if (section.model == "gpt2" || wanted == Wanted::vocabulary) return read_bytes(section, wanted);
  fail(Status::bad_input,
       "{}: metadata \"tokenizer.ggml.model\": unsupported {}, supported: llama, gpt2; give --ids instead of "
       "text",
       section.file, in_quotes(section.model));
}

}  // namespace attnctl
