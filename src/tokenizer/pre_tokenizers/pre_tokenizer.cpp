#include "tokenizer/pre_tokenizers/pre_tokenizer.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/shown.hpp"
#include "base/utf8.hpp"
#include "tokenizer/pre_tokenizers/pre_tokenizer_parts.hpp"

namespace attnctl {
namespace {

class SequencePreTokenizer final : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<PreTokenizerPtr> parts) : parts_(std::move(parts)) {}

  void cut(PieceText& text) const override {
    for (const PreTokenizerPtr& part : parts_) part->cut(text);
  }

 private:
  std::vector<PreTokenizerPtr> parts_;
};

PreTokenizerPtr make_sequence(const PartConfig& config) {
  std::vector<PreTokenizerPtr> parts;
  for (const PartConfig& part : config.objects("pretokenizers")) parts.push_back(make_pre_tokenizer(part));
  return std::make_unique<const SequencePreTokenizer>(std::move(parts));
}

constexpr PartRow<PreTokenizerPtr> kParts[] = {
    {"Sequence", make_sequence},
    {"BertPreTokenizer", make_bert_pre_tokenizer},
    {"ByteLevel", make_byte_level},
    {"Metaspace", make_metaspace},
    {"Whitespace", make_whitespace},
    {"WhitespaceSplit", make_whitespace_split},
    {"Punctuation", make_punctuation},
    {"Digits", make_digits},
    {"Split", make_split},
    {"CharDelimiterSplit", make_character_delimiter},
    {"UnicodeScripts", make_unicode_scripts},
    {"FixedLength", make_fixed_length},
};

}  // namespace

PreTokenizerPtr make_pre_tokenizer(const PartConfig& config) {
  return make_part(config, kParts);
}

std::string read_character(const PartConfig& config, std::string_view key) {
  std::string text = config.string(key);
  if (text.empty() || utf8_sequence_length(text) != text.size()) {
    config.refuse(key, "expected one character, found " + in_quotes(text));
  }
  return text;
}

}  // namespace attnctl
