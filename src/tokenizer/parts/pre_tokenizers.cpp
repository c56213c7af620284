#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include "base/text.hpp"
#include "tokenizer/parts/parts.hpp"
#include "tokenizer/regex/regex.hpp"

namespace attnctl::tokenizer {
namespace {

constexpr int kDropped = -1;   // the character is removed
constexpr int kIsolated = -2;  // each such character is a separate piece
constexpr int kOther = 0;
constexpr int kWord = 1;

/// Returns a step that cuts pieces into runs of characters of the same group, a number such as kWord.
/// group_of(c, last) returns the group of a character after a character of the group `last`.
template <typename GroupOf>
TextStep cut_by_group(GroupOf group_of) {
  return [group_of](PieceText& text) {
    text.cut([&group_of](std::string_view piece, PieceText::Cuts& cuts) {
      std::size_t begin = 0;
      int last = kDropped;
      for (std::size_t i = 0; i < piece.size();) {
        const std::size_t at = i;
        const int group = group_of(unicode::next(piece, i), last);
        if (group == last && group != kIsolated) continue;
        if (last != kDropped) cuts.add(begin, at);
        begin = at;
        last = group;
      }
      if (last != kDropped) cuts.add(begin, piece.size());
    });
  };
}

/// Returns a step that drops white space. Characters of the class `set` have the group `in_set`.
template <unicode::Class set, int in_set>
TextStep cut_by_class(const PartConfig& /*config*/) {
  return cut_by_group([&classes = unicode::classes()](char32_t c, int /*last*/) {
    if ((classes(c) & unicode::white_space) != 0) return kDropped;
    return (classes(c) & set) != 0 ? in_set : kOther;
  });
}

/// Returns the script of a character according to the table in Hugging Face tokenizers (Unicode 9), where
/// kana have the script Han. Returns `last` for a space or a character that the table does not contain.
int script_of(char32_t c, int last) {
  constexpr unsigned kTableVersion = 9;
  // The characters whose script in ICU 72 differs from the table. 0x30FC is the Japanese long-vowel mark,
  // which has the script Common in ICU.
  constexpr std::pair<char32_t, UScriptCode> kExceptions[] = {
      {0x589, USCRIPT_COMMON},     {0x61C, USCRIPT_COMMON}, {0x953, USCRIPT_DEVANAGARI},
      {0x954, USCRIPT_DEVANAGARI}, {0x30FC, USCRIPT_HAN},
  };
  if (c == U' ') return last;
  for (const auto& [exception, script] : kExceptions) {
    if (exception == c) return script;
  }
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(static_cast<UChar32>(c), &status);
  if (U_FAILURE(status) || script == USCRIPT_UNKNOWN || !unicode::is_as_old_as(c, kTableVersion)) {
    return last;
  }
  return script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ? USCRIPT_HAN : script;
}

/// Returns a step that cuts each piece where the script changes. ASCII digits and punctuation have the
/// script Common. A space, or a character without a script in the table, belongs to the same piece as the
/// character before it. At the beginning of a piece such characters are dropped, as in Hugging Face
/// tokenizers.
TextStep make_unicode_scripts(const PartConfig& /*config*/) {
  return cut_by_group([](char32_t c, int last) { return script_of(c, last); });
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

enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

SplitBehavior read_behavior(const PartConfig& config) {
  constexpr std::string_view kNames[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                         "Contiguous"};  // in the order of SplitBehavior
  return static_cast<SplitBehavior>(config.choice("behavior", kNames));
}

/// Returns a step that cuts each piece at matches. find(piece, match) must call match(begin, end) for each
/// match in ascending order. If `invert` is true, the text between matches is treated as matches and the
/// matches as text between them.
template <typename Find>
TextStep cut_at_matches(SplitBehavior behavior, bool invert, Find find) {
  return [behavior, invert, find = std::move(find)](PieceText& text) {
    text.cut([&](std::string_view piece, PieceText::Cuts& cuts) {
      std::size_t begin = 0, end = 0;  // byte range of the current part
      bool after_match = false;        // the current part ends with a match
      const auto close = [&] {
        if (behavior != SplitBehavior::removed || !after_match) cuts.add(begin, end);
      };
      /// Adds bytes [end, next_end): a match, or text before, between or after matches.
      const auto add = [&](std::size_t next_end, bool is_match) {
        const bool joins = (behavior == SplitBehavior::merged_with_previous && is_match && !after_match) ||
                           (behavior == SplitBehavior::merged_with_next && !is_match && after_match) ||
                           (behavior == SplitBehavior::contiguous && is_match == after_match);
        if (!joins) {
          close();
          begin = end;
        }
        end = next_end;
        after_match = is_match;
      };
      find(piece, [&](std::size_t first, std::size_t last) {
        if (end < first) add(first, invert);
        add(last, !invert);
      });
      if (end < piece.size()) add(piece.size(), invert);
      close();
    });
  };
}

template <typename IsMatch>
TextStep split_at(IsMatch is_match, SplitBehavior behavior) {
  return cut_at_matches(behavior, false, [is_match](std::string_view piece, const auto& match) {
    for (std::size_t i = 0; i < piece.size();) {
      const std::size_t begin = i;
      if (is_match(unicode::next(piece, i))) match(begin, i);
    }
  });
}

TextStep make_split(const PartConfig& config) {
  Regex pattern = read_pattern(config);
  const SplitBehavior behavior = read_behavior(config);
  return cut_at_matches(behavior, config.boolean("invert"),
                        [pattern = std::move(pattern)](std::string_view piece, const auto& match) {
                          thread_local std::vector<Regex::Match> matches;
                          pattern.find_all(piece, matches);
                          for (const auto& [begin, end] : matches) match(begin, end);
                        });
}

TextStep make_punctuation(const PartConfig& config) {
  const auto is_match = [](char32_t c) { return unicode::is(c, unicode::punctuation); };
  return split_at(is_match, config.has("behavior") ? read_behavior(config) : SplitBehavior::isolated);
}

TextStep make_digits(const PartConfig& config) {
  const auto is_match = [](char32_t c) { return unicode::is(c, unicode::number); };
  return split_at(is_match,
                  config.boolean("individual_digits") ? SplitBehavior::isolated : SplitBehavior::contiguous);
}

TextStep make_character_delimiter(const PartConfig& config) {
  const char32_t wanted = utf8_code_point(read_character(config, "delimiter"));
  return split_at([wanted](char32_t c) { return c == wanted; }, SplitBehavior::removed);
}

enum class Prepend { first, never, always };

Prepend read_prepend(const PartConfig& config) {
  constexpr std::string_view kNames[] = {"first", "never", "always"};  // in the order of Prepend
  const std::size_t scheme = config.choice("prepend_scheme", kNames, "always");
  const auto prepend = static_cast<Prepend>(scheme);
  // Older files have add_prefix_space, which must not contradict prepend_scheme.
  if (!config.boolean("add_prefix_space", true) && prepend != Prepend::never) {
    config.refuse("add_prefix_space",
                  fmt::format("false contradicts the prepend_scheme \"{}\"; need \"never\"", kNames[scheme]));
  }
  return prepend;
}

/// Returns a step that replaces each space by a visible mark. Depending on prepend_scheme, the step also
/// inserts a mark at the beginning of all pieces, or of those at the beginning of the text, that do not begin
/// with a space or mark. If "split" is true (the default), it cuts before each mark.
TextStep make_metaspace(const PartConfig& config) {
  return [mark = read_character(config, "replacement"), prepend = read_prepend(config),
          splits = config.boolean("split", true)](PieceText& text) {
    text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
      const std::string_view bytes = text.text(piece);
      const bool prepends =
          prepend == Prepend::always || (prepend == Prepend::first && text.origin()[piece.begin].begin == 0);
      if (prepends && !bytes.starts_with(' ') && !bytes.starts_with(mark)) {
        output.put(mark, text.origin()[piece.begin]);
      }
      for (std::size_t begin = 0; begin < bytes.size();) {
        const std::size_t space = std::min(bytes.find(' ', begin), bytes.size());
        output.copy(piece.begin + begin, piece.begin + space);
        if (space < bytes.size()) output.put(mark, text.origin()[piece.begin + space]);
        begin = space + 1;
      }
    });
    if (!splits) return;
    text.cut([&mark](std::string_view piece, PieceText::Cuts& cuts) {
      std::size_t begin = 0;
      for (std::size_t end = 0; begin < piece.size(); begin = end) {
        end = std::min(piece.find(mark, begin + 1), piece.size());
        cuts.add(begin, end);
      }
    });
  };
}

/// Returns a step that replaces each byte by the character that represents it. Before this, the step inserts
/// a space before pieces that do not begin with one if add_prefix_space is true, and cuts the pieces into
/// words with the expression of GPT-2 unless use_regex is false.
TextStep make_byte_level(const PartConfig& config) {
  (void)config.boolean("trim_offsets");  // has no effect here; the call checks that the key exists
  return [prefix_space = config.boolean("add_prefix_space"), cuts_words = config.boolean("use_regex", true),
          cutter = WordCutter(WordRules())](PieceText& text) {
    if (prefix_space) {
      text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
        if (!text.text(piece).starts_with(' ')) output.put(" ", text.origin()[piece.begin]);
        output.copy(piece.begin, piece.end);
      });
    }
    if (cuts_words) {
      text.cut([&](std::string_view piece, PieceText::Cuts& cuts) {
        for (std::size_t begin = 0; begin < piece.size();) {
          const std::size_t end = cutter.end(piece, begin);
          cuts.add(begin, end);
          begin = end;
        }
      });
    }
    write_byte_characters(text);
  };
}

constexpr PartRow<TextStep> kPreTokenizers[] = {
    {"Sequence",
     [](const PartConfig& config) -> TextStep {
       return in_sequence(config, "pretokenizers", make_pre_tokenizer);
     }},
    {"BertPreTokenizer", cut_by_class<unicode::punctuation, kIsolated>},
    {"ByteLevel", make_byte_level},
    {"Metaspace", make_metaspace},
    {"Whitespace", cut_by_class<unicode::word, kWord>},
    {"WhitespaceSplit", cut_by_class<unicode::word, kOther>},
    {"Punctuation", make_punctuation},
    {"Digits", make_digits},
    {"Split", make_split},
    {"CharDelimiterSplit", make_character_delimiter},
    {"UnicodeScripts", make_unicode_scripts},
    {"FixedLength", make_fixed_length},
};

}  // namespace

TextStep make_pre_tokenizer(const PartConfig& config) {
  return find_part(config, kPreTokenizers).make(config);
}

std::string read_character(const PartConfig& config, std::string_view key) {
  std::string text = config.string(key);
  if (text.empty() || utf8_sequence_length(text) != text.size()) {
    config.refuse(key, "expected one character, found " + in_quotes(text));
  }
  return text;
}

void write_byte_characters(PieceText& text) {
  text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
    const std::string_view all = text.text();
    for (std::size_t i = piece.begin; i < piece.end;) {
      const std::size_t begin = i;
      // Visible ASCII characters represent themselves.
      while (i < piece.end && all[i] > 0x20 && all[i] < 0x7F) ++i;
      if (i > begin) output.copy(begin, i);
      if (i == piece.end) break;
      output.put(unicode::Utf8(kByteCharacters[static_cast<unsigned char>(all[i])]), text.origin()[i]);
      ++i;
    }
  });
}

}  // namespace attnctl::tokenizer
