#include <algorithm>
#include <iterator>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/text.hpp"
#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/regex/regex.hpp"

// Reads the tokenizers of models without tokenizer.json: vocab.json with merges.txt (byte-level BPE),
// vocab.txt (BERT), and GGUF files.
namespace attnctl::tokenizer {
namespace {

using Json = nlohmann::ordered_json;

Json byte_level_part(bool add_prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

void read_merges_txt(TokenizerFile& file, const std::filesystem::path& path) {
  const std::string text = read_file(path, kLargestTokenizerFile, Status::bad_input);
  std::string_view rest = text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = take_line(rest);
    if (line.starts_with("#version") || file.merges.add_line(line)) continue;
    refuse(escaped(path.string()), "line {}: got {}, need two tokens with a space between", number,
           in_quotes(line));
  }
}

/// Returns whether the tokenizer adds <s> and </s> around texts, as in RoBERTa and BART but not in GPT-2.
/// Decides by tokenizer_class or, if it is missing, by the tokens of the vocabulary.
bool is_roberta(const TokenizerFile& file, const TokenizerConfig& config) {
  if (config.options().has("tokenizer_class")) {
    return !config.options().string("tokenizer_class").starts_with("GPT2Tokenizer");
  }
  const auto has = [&](std::string_view token) {
    return std::ranges::count(file.vocabulary, token, &TokenEntry::token) > 0;
  };
  return has("<s>") && has("</s>") && has("<mask>") && !has("<|endoftext|>");
}

void set_byte_level_parts(TokenizerFile& file, const TokenizerConfig& config, bool roberta) {
  const PartConfig options = config.options();
  const bool space = options.boolean("add_prefix_space", false);
  file.parts["pre_tokenizer"] = byte_level_part(space, true);
  if (!roberta) {
    file.parts["post_processor"] = make_template(file, config);
    return;
  }
  const auto end_of = [&](const std::string& token) { return Json{token, id_of(file, token)}; };
  file.parts["post_processor"] = {{"type", "RobertaProcessing"},
                                  {"sep", end_of(config.token("sep_token"))},
                                  {"cls", end_of(config.token("cls_token"))},
                                  {"trim_offsets", options.boolean("trim_offsets", true)},
                                  {"add_prefix_space", space}};
}

/// Reads vocab.txt, which has one token per line. Removes white space at the end of each line. The id of a
/// token is its line number, from 0. The id of a repeated token is the number of its last line.
void read_lines(TokenizerFile& file, std::string_view text) {
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t number = 0; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    const std::string_view token = line.substr(0, unicode::white_space_begin(line, line.size()));
    if (number > kLargestTokenId)
      refuse(file.name, "got more than {} tokens, one per line", kLargestTokenId + 1);
    const auto [place, is_new] = places.try_emplace(token, file.vocabulary.size());
    if (is_new) file.vocabulary.push_back({std::string(token), 0, 0});
    file.vocabulary[place->second].id = static_cast<std::int32_t>(number);
  }
}

void set_bert_parts(TokenizerFile& file, TokenizerConfig& config) {
  const PartConfig options = config.options();
  Json accents = nullptr;
  if (options.has("strip_accents")) accents = options.boolean("strip_accents");
  file.parts["normalizer"] = {{"type", "BertNormalizer"},
                              {"clean_text", true},
                              {"handle_chinese_chars", options.boolean("tokenize_chinese_chars", true)},
                              {"strip_accents", std::move(accents)},
                              {"lowercase", options.boolean("do_lower_case", true)}};
  file.parts["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  file.parts["model"]["unk_token"] = config.token("unk_token");
  file.parts["model"]["continuing_subword_prefix"] = "##";
  file.parts["model"]["max_input_chars_per_word"] = 100U;
  file.parts["post_processor"] =
      make_template(file, config.token("cls_token"), config.token("sep_token"), true);
}

using Type = formats::TokenizerSection::Type;

constexpr WordRules words_with_digits(unsigned digits) {
  return {WordRules::Letters::after_any, true, digits, WordRules::Tail::newlines, true};
}

/// The settings of a byte-level BPE tokenizer that a GGUF file only names, in tokenizer.ggml.pre.
struct PreTokenizerRow {
  std::array<std::string_view, 4> names;  // values of tokenizer.ggml.pre
  WordRules words = {};                   // regular expression of words; by default that of GPT-2
  bool digits = false;                    // before matching `words`, make each digit a piece
  bool nfc = false;                       // normalize texts to NFC
  bool ignore_merges = false;             // a word in the vocabulary is one token, whatever the merges make
  bool add_bos = false;                   // default value of tokenizer.ggml.add_bos_token
};

constexpr PreTokenizerRow kByteLevelRows[] = {
    {.names = {"", "default", "gpt-2", "phi-2"}},
    {.names = {"smollm", "starcoder", "refact"}, .digits = true},
    {.names = {"qwen2", "deepseek-r1-qwen"}, .words = words_with_digits(1), .nfc = true},
    {.names = {"llama-bpe", "llama3", "llama-v3"},
     .words = words_with_digits(3),
     .ignore_merges = true,
     .add_bos = true},
};

const PreTokenizerRow& row_of(const formats::TokenizerSection& section) {
  std::vector<std::string_view> known;
  for (const PreTokenizerRow& row : kByteLevelRows) {
    if (std::ranges::find(row.names, section.pre) != row.names.end()) return row;
    std::ranges::remove_copy(row.names, std::back_inserter(known), std::string_view());
  }
  refuse(section.file,
         "metadata \"tokenizer.ggml.pre\": unsupported {}, supported: {}; give token ids instead of text, "
         "for example with --ids",
         in_quotes(section.pre), fmt::join(known, ", "));
}

/// Returns the options and the special tokens in a GGUF file. `add_bos` is the default of add_bos_token.
TokenizerConfig config_of(const formats::TokenizerSection& section, bool add_bos) {
  Json options = {{"add_bos_token", section.add_bos.value_or(add_bos)},
                  {"add_eos_token", section.add_eos.value_or(false)}};
  for (const auto& [role, id] : section.roles) options[std::string(role)] = section.tokens[id];
  return {section.file, std::move(options)};
}

TokenizerFile read_pieces(const formats::TokenizerSection& section, Wanted wanted) {
  SentencePieceModel model;
  model.algorithm = SentencePieceModel::Algorithm::bpe;
  model.add_dummy_prefix = section.add_space_prefix.value_or(true);
  model.remove_extra_whitespaces = section.remove_extra_whitespaces.value_or(false);
  for (std::size_t id = 0; id < section.tokens.size(); ++id) {
    const Type type = section.types[id] == Type::undefined ? Type::normal : section.types[id];
    model.pieces.push_back({section.tokens[id], section.scores.empty() ? 0 : section.scores[id], type});
    model.byte_fallback = model.byte_fallback || type == Type::byte;
  }
  TokenizerConfig config = config_of(section, true);
  return make_sentencepiece(section.file, model, config, wanted);
}

void read_merges(const formats::TokenizerSection& section, TokenizerFile& file) {
  for (std::size_t i = 0; i < section.merges.size(); ++i) {
    // From byte 1 on, because the left token may begin with a space.
    if (file.merges.add_line(section.merges[i], 1)) continue;
    refuse(section.file,
           "metadata \"tokenizer.ggml.merges\": merge {}: got {}, need two tokens with a space between", i,
           in_quotes(section.merges[i]));
  }
}

void set_text_parts(const PreTokenizerRow& row, TokenizerFile& file) {
  if (row.nfc) file.parts["normalizer"] = {{"type", "NFC"}};
  const bool plain = row.words.letters == WordRules::Letters::after_space;  // the expression of GPT-2
  Json steps = Json::array();
  if (row.digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  if (!plain) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", row.words.pattern()}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back(byte_level_part(false, plain));
  file.parts["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
  file.parts["model"]["ignore_merges"] = row.ignore_merges;
}

TokenizerFile read_bytes(const formats::TokenizerSection& section, Wanted wanted) {
  TokenizerFile file;
  file.name = section.file;
  for (std::size_t id = 0; id < section.tokens.size(); ++id) {
    const std::string& token = section.tokens[id];
    file.vocabulary.push_back({token, static_cast<std::int32_t>(id), 0});
    const bool special = section.types[id] == Type::control || section.types[id] == Type::unknown;
    if (!special && section.types[id] != Type::user_defined) continue;
    file.added_tokens.push_back({.content = token, .special = special});
  }
  file.parts["model"]["type"] = "BPE";
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

TokenizerFile read_vocab_json(const std::filesystem::path& path, TokenizerConfig& config, Wanted wanted) {
  TokenizerFile file;
  file.name = escaped(path.string());
  const Json ids = read_json_object(path);  // {"token": id, ...}
  for (const auto& [token, id] : ids.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kLargestTokenId) {
      PartConfig(file.name, "", ids)
          .refuse(token, fmt::format("got {}, need an id, an integer from 0 to {}", shown(id.dump()),
                                     kLargestTokenId));
    }
    file.vocabulary.push_back({token, id.get<std::int32_t>(), 0});
  }
  file.parts["model"]["type"] = "BPE";
  bool roberta = false;
  if (wanted == Wanted::tokenizer) {
    check_class(config, "vocab.json",
                {"GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer", "LongformerTokenizer", "LEDTokenizer",
                 "MvpTokenizer"});
    read_merges_txt(file, path.parent_path() / "merges.txt");
    roberta = is_roberta(file, config);
    if (roberta) {
      config.set_defaults({{"bos_token", "<s>"},
                           {"eos_token", "</s>"},
                           {"sep_token", "</s>"},
                           {"cls_token", "<s>"},
                           {"unk_token", "<unk>"},
                           {"pad_token", "<pad>"},
                           {"mask_token", "<mask>"}});
    } else {
      constexpr std::string_view kToken = "<|endoftext|>";
      config.set_defaults({{"bos_token", kToken}, {"eos_token", kToken}, {"unk_token", kToken}});
    }
  }
  add_tokens(file, config);
  if (wanted == Wanted::tokenizer) set_byte_level_parts(file, config, roberta);
  return file;
}

TokenizerFile read_vocab_txt(const std::filesystem::path& path, TokenizerConfig& config, Wanted wanted) {
  if (wanted == Wanted::tokenizer) {
    check_class(config, "vocab.txt",
                {"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer",
                 "SqueezeBertTokenizer", "LayoutLMTokenizer", "ConvBertTokenizer", "LxmertTokenizer"});
    config.set_defaults({{"unk_token", "[UNK]"},
                         {"sep_token", "[SEP]"},
                         {"pad_token", "[PAD]"},
                         {"cls_token", "[CLS]"},
                         {"mask_token", "[MASK]"}});
  }
  TokenizerFile file;
  file.name = escaped(path.string());
  const std::string text = read_file(path, kLargestTokenizerFile, Status::bad_input);
  if (const auto invalid = find_ill_formed_utf8(text)) {
    refuse(file.name, "@byte {}: not UTF-8; convert the file to UTF-8", *invalid);
  }
  read_lines(file, text);
  file.parts["model"]["type"] = "WordPiece";
  add_tokens(file, config);
  if (wanted == Wanted::tokenizer) set_bert_parts(file, config);
  return file;
}

TokenizerFile read_section(const formats::TokenizerSection& section, Wanted wanted) {
  if (section.model == "llama") return read_pieces(section, wanted);
  // The vocabulary can be read for any kind of tokenizer.
  if (section.model == "gpt2" || wanted == Wanted::vocabulary) return read_bytes(section, wanted);
  refuse(section.file,
         "metadata \"tokenizer.ggml.model\": unsupported {}, supported: llama, gpt2; give token ids instead "
         "of text, for example with --ids",
         in_quotes(section.model));
}

}  // namespace attnctl::tokenizer
