#include "tokenizer/normalizers/normalizer.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tokenizer/pre_tokenizers/byte_level.hpp"
#include "tokenizer/regex/regex.hpp"
#include "tokenizer/unicode/normal_form.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kDeepestSequence = 32;

using Piece = PieceText::Piece;
using Output = PieceText::Output;

TextStep make_sequence(const PartConfig& config) {
  std::size_t depth = 0;
  for (std::size_t at = 0; (at = config.pointer().find("/normalizers/", at)) != std::string::npos; ++at) {
    ++depth;
  }
  if (depth >= kDeepestSequence) {
    config.refuse("", fmt::format("a Sequence in {} others, need at most {}", depth, kDeepestSequence));
  }
  std::vector<TextStep> steps;
  for (const PartConfig& part : config.objects("normalizers")) steps.push_back(make_normalizer(part));
  return in_sequence(std::move(steps));
}

/// Returns the end of the run at `begin`, or `begin` if that run does not change.
std::size_t changed_run_end(const NormalForm& form, std::string_view text, std::size_t begin,
                            std::size_t end) {
  std::size_t i = begin;
  const char32_t first = unicode::next(text, i);
  if (first < 0x80 && (i == end || unicode::is_ascii(text[i])))
    return begin;  // ASCII neither changes nor joins
  const std::size_t one = i;
  for (std::size_t ahead = i; ahead < end && form.joins(unicode::next(text, ahead));) i = ahead;
  return i == one && !form.changes(first) ? begin : i;
}

void put_run(const NormalForm& form, const PieceText& text, const Piece& run, Output& output) {
  thread_local std::vector<char32_t> characters;
  thread_local std::vector<ChangedCharacter> changed;
  characters.clear();
  for (std::size_t i = run.begin; i < run.end;) characters.push_back(unicode::next(text.text(), i));
  form.apply(characters, changed);
  OriginCursor cursor(text, run);
  for (const ChangedCharacter& x : changed) output.put(unicode::Utf8(x.c), cursor.take(x.change));
}

template <NormalForm::Kind kind>
TextStep make_form(const PartConfig& /*config*/) {
  return [&form = NormalForm::get(kind)](PieceText& text) {
    text.rewrite([&](const Piece& piece, Output& output) {
      std::size_t copied = piece.begin;
      for (std::size_t begin = piece.begin; begin < piece.end;) {
        const std::size_t end = changed_run_end(form, text.text(), begin, piece.end);
        if (end != begin) {
          output.copy(copied, begin);
          put_run(form, text, {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)}, output);
          begin = copied = end;
        } else {
          unicode::next(text.text(), begin);
        }
      }
      output.copy(copied, piece.end);
    });
  };
}

void to_lowercase(PieceText& text) {
  text.rewrite([&](const Piece& piece, Output& output) {
    const std::string_view all = text.text();
    for (std::size_t i = piece.begin; i < piece.end;) {
      const std::size_t ascii = unicode::ascii_end(all, i, piece.end);
      output.copy_mapped(i, ascii,
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 0x20) : c; });
      i = ascii;
      if (i == piece.end) break;
      const TextRange origin = text.origin()[i];
      const char32_t c = unicode::next(all, i);
      output.put(unicode::Utf8(unicode::to_lower(c)), origin);
      if (c == unicode::kDottedCapitalI) output.put(unicode::Utf8(unicode::kDotAbove), origin);
    }
  });
}

enum class Fate { kept, dropped, space };

/// Returns a step that drops characters or replaces them by a space.
template <Fate (*fate_of)(char32_t)>
TextStep make_filter(const PartConfig& /*config*/) {
  return [](PieceText& text) {
    text.rewrite([&](const Piece& piece, Output& output) {
      std::size_t copied = piece.begin;
      for (std::size_t i = piece.begin; i < piece.end;) {
        const std::size_t at = i;
        const Fate fate = fate_of(unicode::next(text.text(), i));
        if (fate == Fate::kept) continue;
        output.copy(copied, at);
        if (fate == Fate::space) output.put(" ", text.origin()[at]);
        copied = i;
      }
      output.copy(copied, piece.end);
    });
  };
}

Fate without_mark(char32_t c) {
  return unicode::is(c, unicode::mark) ? Fate::dropped : Fate::kept;
}

/// The rules of the normalizer Nmt (neural machine translation).
Fate for_translation(char32_t c) {
  constexpr std::u32string_view kSpaces =
      U"\t\n\f\r\u1680\u200B\u200C\u200D\u200E\u200F\u2028\u2029\u2581\uFEFF\uFFFD";
  if (kSpaces.find(c) != std::u32string_view::npos) return Fate::space;
  const bool control = (c >= 0x01 && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  return control ? Fate::dropped : Fate::kept;
}

TextStep make_strip(const PartConfig& config) {
  return [left = config.boolean("strip_left"), right = config.boolean("strip_right")](PieceText& text) {
    text.rewrite([&](const Piece& piece, Output& output) {
      const auto is_space = unicode::is_white_space;
      std::size_t begin = piece.begin;
      std::size_t end = piece.end;
      for (std::size_t i = begin; left && i < end && is_space(unicode::next(text.text(), i));) begin = i;
      for (std::size_t i = end; right && i > begin && is_space(unicode::previous(text.text(), i));) end = i;
      output.copy(begin, end);
    });
  };
}

TextStep make_prepend(const PartConfig& config) {
  return [prefix = config.string("prepend")](PieceText& text) {
    text.rewrite([&](const Piece& piece, Output& output) {
      std::size_t after = piece.begin;
      unicode::next(text.text(), after);
      if (prefix.empty()) {
        // The reference gives the first character the empty origin before itself.
        output.put(text.text().substr(piece.begin, after - piece.begin), text.origin_before(piece));
      } else {
        output.put(prefix, text.origin()[piece.begin]);
        output.copy(piece.begin, after);
      }
      output.copy(after, piece.end);
    });
  };
}

/// Replaces each match of a string or regular expression by literal content.
TextStep make_replace(const PartConfig& config) {
  return [pattern = read_pattern(config), content = config.string("content")](PieceText& text) {
    thread_local std::vector<Regex::Match> matches;
    text.rewrite([&](const Piece& piece, Output& output) {
      pattern.find_all(text.text(piece), matches);
      std::size_t copied = piece.begin;
      for (const auto& [first, last] : matches) {
        const std::size_t end = piece.begin + last;
        output.copy(copied, piece.begin + first);
        // The origin is that of the last character replaced, or the one before an empty match.
        output.put(content, end == piece.begin ? text.origin_before(piece) : text.origin()[end - 1]);
        copied = end;
      }
      output.copy(copied, piece.end);
    });
  };
}

constexpr PartRow<TextStep> kNormalizers[] = {
    {"Sequence", make_sequence},
    {"NFC", make_form<NormalForm::nfc>},
    {"NFD", make_form<NormalForm::nfd>},
    {"NFKC", make_form<NormalForm::nfkc>},
    {"NFKD", make_form<NormalForm::nfkd>},
    {"Lowercase", [](const PartConfig&) -> TextStep { return to_lowercase; }},
    {"StripAccents", make_filter<without_mark>},
    {"Strip", make_strip},
    {"Replace", make_replace},
    {"Prepend", make_prepend},
    {"Precompiled", make_precompiled},
    {"BertNormalizer", make_bert_normalizer},
    {"ByteLevel", [](const PartConfig&) -> TextStep { return byte_level::write; }},
    {"Nmt", make_filter<for_translation>},
};

}  // namespace

TextStep make_normalizer(const PartConfig& config) {
  return make_part(config, kNormalizers);
}

}  // namespace attnctl
