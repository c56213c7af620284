#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include "tokenizer/pre_tokenizers/pre_tokenizer_parts.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

constexpr unsigned table_version = 9;  // the Unicode version of the reference's table

/// What ICU 72 gives otherwise than the reference's table, of the characters of its time.
struct Exception {
  char32_t c;
  UScriptCode script;
};
constexpr Exception exceptions[] = {{0x589, USCRIPT_COMMON},
                                    {0x61C, USCRIPT_COMMON},
                                    {0x953, USCRIPT_DEVANAGARI},
                                    {0x954, USCRIPT_DEVANAGARI},
                                    {0x30FC, USCRIPT_HAN}};  // the sign of a long vowel, which is Common

/// The script that cuts; none for a space and for what the table does not know. Kana count as Han.
std::optional<UScriptCode> script_of(char32_t c) {
  if (c == U' ') return std::nullopt;
  for (const Exception& exception : exceptions) {
    if (exception.c == c) return exception.script;
  }
  const auto point = static_cast<UChar32>(c);
  UVersionInfo age{};
  u_charAge(point, age);
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(point, &status);
  if (U_FAILURE(status) || age[0] > table_version || script == USCRIPT_UNKNOWN) return std::nullopt;
  return script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ? USCRIPT_HAN : script;
}

/// Cuts where the script changes. Characters of no script go with those before them; at the beginning of a
/// piece they are dropped, as the reference does.
class UnicodeScripts final : public PreTokenizer {
 public:
  void cut(PieceText& text) const override {
    text.cut([](const PieceText::Piece& /*piece*/, std::string_view piece_text, PieceText::Cuts& cuts) {
      std::optional<UScriptCode> current;
      std::size_t begin = 0;
      for (std::size_t i = 0; i < piece_text.size();) {
        const std::size_t at = i;
        const std::optional<UScriptCode> script = script_of(unicode::next(piece_text, i));
        if (!script || script == current) continue;
        if (current) cuts.add(begin, at);
        begin = at;
        current = script;
      }
      if (current) cuts.add(begin, piece_text.size());
    });
  }
};

}  // namespace

PreTokenizerPtr make_unicode_scripts(const PartConfig& /*config*/) {
  return std::make_unique<const UnicodeScripts>();
}

}  // namespace attnctl
