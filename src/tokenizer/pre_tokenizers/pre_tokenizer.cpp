#include "tokenizer/pre_tokenizers/pre_tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include "base/text.hpp"
#include "tokenizer/pre_tokenizers/byte_level.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

/// What a pre-tokenizer does with a character: drops it, makes it a piece, or joins it to neighbours of its
/// kind.
enum class Role { dropped, isolated, first_kind, second_kind };

Role bert_role(std::uint16_t classes) {
  if ((classes & unicode::white_space) != 0) return Role::dropped;
  return (classes & unicode::bert_punctuation) != 0 ? Role::isolated : Role::first_kind;
}

Role word_role(std::uint16_t classes) {
  if ((classes & unicode::word) != 0) return Role::first_kind;
  return (classes & unicode::white_space) != 0 ? Role::dropped : Role::second_kind;
}

Role white_space_role(std::uint16_t classes) {
  return (classes & unicode::white_space) != 0 ? Role::dropped : Role::first_kind;
}

template <Role (*role_of)(std::uint16_t)>
void cut_by_role(PieceText& text) {
  text.cut([&classes = unicode::classes()](std::string_view piece, PieceText::Cuts& cuts) {
    std::size_t begin = 0;
    Role last = Role::dropped;
    for (std::size_t i = 0; i < piece.size();) {
      const std::size_t at = i;
      const Role role = role_of(classes(unicode::next(piece, i)));
      if (role == last && role != Role::isolated) continue;
      if (last != Role::dropped) cuts.add(begin, at);
      begin = at;
      last = role;
    }
    if (last != Role::dropped) cuts.add(begin, piece.size());
  });
}

template <Role (*role_of)(std::uint16_t)>
TextStep make_cut_by_role(const PartConfig& /*config*/) {
  return cut_by_role<role_of>;
}

/// Returns the script of a character in the table of the reference (Unicode 9), which has kana as Han;
/// nullopt for a space or an unknown character.
std::optional<UScriptCode> script_of(char32_t c) {
  constexpr unsigned kTableVersion = 9;
  struct Exception {
    char32_t c;
    UScriptCode script;
  };
  // Where ICU 72 differs from the table. 0x30FC is the mark of a long vowel, Common in ICU.
  constexpr Exception kExceptions[] = {{0x589, USCRIPT_COMMON},
                                       {0x61C, USCRIPT_COMMON},
                                       {0x953, USCRIPT_DEVANAGARI},
                                       {0x954, USCRIPT_DEVANAGARI},
                                       {0x30FC, USCRIPT_HAN}};
  if (c == U' ') return std::nullopt;
  for (const Exception& exception : kExceptions) {
    if (exception.c == c) return exception.script;
  }
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(static_cast<UChar32>(c), &status);
  if (U_FAILURE(status) || script == USCRIPT_UNKNOWN || !unicode::is_as_old_as(c, kTableVersion)) {
    return std::nullopt;
  }
  return script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ? USCRIPT_HAN : script;
}

/// Cuts where the script changes. Characters without a script join those before them; at the begin of a piece
/// they are dropped, as in the reference.
void cut_by_script(PieceText& text) {
  text.cut([](std::string_view piece, PieceText::Cuts& cuts) {
    std::optional<UScriptCode> current;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < piece.size();) {
      const std::size_t at = i;
      const std::optional<UScriptCode> script = script_of(unicode::next(piece, i));
      if (!script || script == current) continue;
      if (current) cuts.add(begin, at);
      begin = at;
      current = script;
    }
    if (current) cuts.add(begin, piece.size());
  });
}

TextStep make_unicode_scripts(const PartConfig& /*config*/) {
  return cut_by_script;
}

TextStep make_fixed_length(const PartConfig& config) {
  const std::int64_t length = config.integer("length", 5);
  if (length < 1) config.refuse("length", "expected at least 1, found " + std::to_string(length));
  return [length](PieceText& text) {
    text.cut([length](std::string_view piece, PieceText::Cuts& cuts) {
      std::size_t begin = 0;
      std::int64_t count = 0;
      for (std::size_t i = 0; i < piece.size();) {
        unicode::next(piece, i);
        if (++count < length && i < piece.size()) continue;
        cuts.add(begin, i);
        begin = i;
        count = 0;
      }
    });
  };
}

TextStep make_sequence(const PartConfig& config) {
  std::vector<TextStep> steps;
  for (const PartConfig& part : config.objects("pretokenizers")) steps.push_back(make_pre_tokenizer(part));
  return in_sequence(std::move(steps));
}

constexpr PartRow<TextStep> kPreTokenizers[] = {
    {"Sequence", make_sequence},
    {"BertPreTokenizer", make_cut_by_role<bert_role>},
    {"ByteLevel", byte_level::make_pre_tokenizer},
    {"Metaspace", make_metaspace},
    {"Whitespace", make_cut_by_role<word_role>},
    {"WhitespaceSplit", make_cut_by_role<white_space_role>},
    {"Punctuation", make_punctuation},
    {"Digits", make_digits},
    {"Split", make_split},
    {"CharDelimiterSplit", make_character_delimiter},
    {"UnicodeScripts", make_unicode_scripts},
    {"FixedLength", make_fixed_length},
};

}  // namespace

TextStep make_pre_tokenizer(const PartConfig& config) {
  return make_part(config, kPreTokenizers);
}

std::string read_character(const PartConfig& config, std::string_view key) {
  std::string text = config.string(key);
  if (text.empty() || utf8_sequence_length(text) != text.size()) {
    config.refuse(key, "expected one character, found " + in_quotes(text));
  }
  return text;
}

}  // namespace attnctl
