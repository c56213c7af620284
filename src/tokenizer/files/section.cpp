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
#include "base/shown.hpp"
#include "tokenizer/files/file_layouts.hpp"
#include "tokenizer/files/vocabulary_check.hpp"

namespace attnctl {
namespace {

using Json = nlohmann::ordered_json;
using Type = TokenizerSection::Type;

/// How texts are cut before byte-level merges: a section names it where tokenizer.json has it in full.
struct PreTokenizerRow {
  std::vector<std::string_view> names;  // of tokenizer.ggml.pre
  std::string_view cuts = {};           // a regular expression; empty: that of GPT-2
  bool digits = false;                  // each digit alone, before
  bool composed = false;                // NFC
  bool whole_words = false;             // a word in the vocabulary is taken whole
  bool begins = false;                  // where nothing is said, a text begins with the token for that
};

const std::vector<PreTokenizerRow>& rows() {
  static const std::vector<PreTokenizerRow> kRows = {
      {.names = {"", "default", "gpt-2", "phi-2"}},
      {.names = {"smollm", "starcoder", "refact"}, .digits = true},
      {.names = {"qwen2", "deepseek-r1-qwen"},
       .cuts = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
               R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
       .composed = true},
      {.names = {"llama-bpe", "llama3", "llama-v3"},
       .cuts = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
               R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
       .whole_words = true,
       .begins = true},
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

/// What tokenizer_config.json would say.
TokenizerConfig config_of(const TokenizerSection& section, bool begins) {
  Json options = {{"add_bos_token", section.add_bos.value_or(begins)},
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
    // A type that is not given is that of a plain piece.
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
    const std::string_view merge = section.merges[i];
    const std::size_t space = merge.find(' ', 1);  // a token may be a space itself
    if (space == std::string_view::npos || merge.find(' ', space + 1) != std::string_view::npos) {
      fail(Status::bad_input,
           "{}: metadata \"tokenizer.ggml.merges\": merge {}: got {}, need two tokens with a space between",
           section.file, i, in_quotes(merge));
    }
    file.merges.add(merge.substr(0, space), merge.substr(space + 1));
  }
}

void set_text_parts(const PreTokenizerRow& row, TokenizerFile& file) {
  if (row.composed) file.parts["normalizer"] = {{"type", "NFC"}};
  const bool plain = row.cuts.empty();
  Json steps = Json::array();
  if (row.digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  if (!plain) {
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", row.cuts}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  steps.push_back(
      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", plain}});
  file.parts["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
  file.parts["decoder"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  file.parts["model"]["ignore_merges"] = row.whole_words;
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
    added.push_back({{"id", 0U},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special}});
  }
  file.parts["model"]["type"] = "BPE";
  file.parts["added_tokens"] = std::move(added);
  const PreTokenizerRow* const row = wanted == Wanted::tokenizer ? &row_of(section) : nullptr;
  const TokenizerConfig config = config_of(section, row != nullptr && row->begins);
  add_tokens(file, config);
  check_vocabulary(file);
  if (row == nullptr) return file;
  read_merges(section, file);
  set_text_parts(*row, file);
  const PartConfig options = config.options();
  file.parts["post_processor"] =
      make_template(file, options.boolean("add_bos_token", false) ? config.token("bos_token") : "",
                    options.boolean("add_eos_token", false) ? config.token("eos_token") : "");
  return file;
}

struct Row {
  std::string_view model;
  TokenizerFile (*read)(const TokenizerSection& section, Wanted wanted);
};

constexpr Row kRows[] = {{"llama", read_pieces}, {"gpt2", read_bytes}};

}  // namespace

TokenizerFile read_section(const TokenizerSection& section, Wanted wanted) {
  std::string known;
  for (const Row& row : kRows) {
    if (row.model == section.model) return row.read(section, wanted);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.model);
  }
  if (wanted == Wanted::vocabulary) return read_bytes(section, wanted);  // its ids and tokens all the same
  fail(Status::bad_input,
       "{}: metadata \"tokenizer.ggml.model\": unsupported {}, supported: {}; give --ids instead of text",
       section.file, in_quotes(section.model), known);
}

}  // namespace attnctl
