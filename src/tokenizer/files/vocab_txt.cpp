#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "base/files/mapped_file.hpp"
#include "base/utf8.hpp"
#include "tokenizer/files/file_layouts.hpp"
#include "tokenizer/files/vocabulary_check.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kFileLimit = std::size_t{256} << 20U;

/// Without white space at its end.
std::string_view trimmed(std::string_view line) {
  while (!line.empty()) {
    std::size_t begin = line.size();
    if (!unicode::is_white_space(unicode::previous(line, begin))) break;
    line = line.substr(0, begin);
  }
  return line;
}

void require_utf8(const TokenizerFile& file, std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_sequence_length(text.substr(i));
    if (length == 0) fail(Status::bad_input, "{}: @byte {}: not UTF-8", file.name, i);
    i += length;
  }
}

/// One token a line; ids are the numbers of the lines. A token that comes again has the id of the last.
void read_lines(TokenizerFile& file, std::string_view text) {
  std::unordered_map<std::string_view, std::size_t> places;
  std::size_t number = 0;
  for (; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view token = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (number > kLargestTokenId) fail(Status::bad_input, "{}: got too many lines", file.name);
    const auto [place, is_new] = places.try_emplace(token, file.vocabulary.size());
    if (is_new) file.vocabulary.push_back({std::string(token), 0, 0});
    file.vocabulary[place->second].id = static_cast<std::int32_t>(number);
  }
}

void assemble(TokenizerFile& file, TokenizerConfig& config) {
  const PartConfig options = config.options();
  nlohmann::ordered_json accents = nullptr;
  if (const auto strip = options.optional_boolean("strip_accents")) accents = *strip;
  file.parts["normalizer"] = {{"type", "BertNormalizer"},
                              {"clean_text", true},
                              {"handle_chinese_chars", options.boolean("tokenize_chinese_chars", true)},
                              {"strip_accents", std::move(accents)},
                              {"lowercase", options.boolean("do_lower_case", true)}};
  file.parts["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  file.parts["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  file.parts["model"]["unk_token"] = config.token("unk_token");
  file.parts["model"]["continuing_subword_prefix"] = "##";
  file.parts["model"]["max_input_chars_per_word"] = 100U;
  const std::string begin = config.token("cls_token");
  const std::string end = config.token("sep_token");
  file.parts["post_processor"] =
      make_template(file, {{begin}, {"$A"}, {end}}, {{begin}, {"$A"}, {end}, {"$B", 1}, {end, 1}});
}

}  // namespace

TokenizerFile read_vocab_txt(const std::filesystem::path& path, TokenizerConfig& config, Wanted wanted) {
  if (wanted == Wanted::tokenizer) {
    check_class(config, "vocab.txt",
                {"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer",
                 "SqueezeBertTokenizer", "LayoutLMTokenizer", "ConvBertTokenizer", "LxmertTokenizer"});
    config.set_default("unk_token", "[UNK]");
    config.set_default("sep_token", "[SEP]");
    config.set_default("pad_token", "[PAD]");
    config.set_default("cls_token", "[CLS]");
    config.set_default("mask_token", "[MASK]");
  }
  TokenizerFile file;
  file.name = escaped(path.string());
  const std::string text = read_file(path, kFileLimit, Status::bad_input);
  require_utf8(file, text);
  read_lines(file, text);
  file.parts["model"]["type"] = "WordPiece";
  add_tokens(file, config);
  check_vocabulary(file);
  if (wanted == Wanted::tokenizer) assemble(file, config);
  return file;
}

}  // namespace attnctl
