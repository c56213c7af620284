#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "tokenizer/parts/parts.hpp"
#include "tokenizer/parts/piece_text.hpp"
#include "tokenizer/regex/regex.hpp"
#include "tokenizer/unicode/normal_form.hpp"
#include "tokenizer/unicode/unicode.hpp"

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
  return in_sequence(config, "normalizers", make_normalizer);
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
  return [&form = NormalForm::get<kind>()](PieceText& text) {
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

void put_lowercase(char32_t c, TextRange origin, Output& output) {
  output.put(unicode::Utf8(unicode::to_lower(c)), origin);
  if (c == unicode::kDottedCapitalI) output.put(unicode::Utf8(unicode::kDotAbove), origin);
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
      put_lowercase(unicode::next(all, i), origin, output);
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
      const std::string_view bytes = text.text(piece);
      const std::size_t begin = left ? unicode::white_space_end(bytes, 0) : 0;
      const std::size_t end = right ? unicode::white_space_begin(bytes, bytes.size(), begin) : bytes.size();
      output.copy(piece.begin + begin, piece.begin + end);
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

struct BertOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};

/// Buffers of one thread.
struct Scratch {
  std::vector<char32_t> run;
  std::vector<TextRange> origin;  // [run]
  std::vector<ChangedCharacter> changed;
};

/// The replacement of each ASCII character; kDropped if it is dropped.
constexpr char kDropped = '\xFF';
using AsciiMap = std::array<char, 128>;

AsciiMap make_ascii_map(const BertOptions& options) {
  AsciiMap map{};
  for (std::size_t i = 0; i < map.size(); ++i) {
    const auto c = static_cast<char32_t>(i);
    const std::uint16_t of = unicode::classes()(c);
    map[i] = static_cast<char>(options.lowercase ? unicode::to_lower(c) : c);
    if (!options.clean_text) continue;
    if ((of & unicode::white_space) != 0) map[i] = ' ';
    if ((of & unicode::bert_dropped) != 0) map[i] = kDropped;
  }
  return map;
}

/// Rewrites one piece: clean_text, handle_chinese_chars, strip_accents and lowercase, in this order. Each
/// character passes through all steps; characters that NFD may join wait in a run.
class BertRewrite {
 public:
  BertRewrite(const BertOptions& options, const AsciiMap& ascii, const NormalForm& form, Output& output)
      : options_(options), ascii_(ascii), form_(form), output_(output) {}

  void piece(const PieceText& text, const Piece& piece) {
    const std::string_view all = text.text();
    for (std::size_t i = piece.begin; i < piece.end;) {
      std::size_t ascii = unicode::ascii_end(all, i, piece.end);
      if (ascii > i && ascii < piece.end) --ascii;  // a mark may follow the last one
      if (ascii > i) {
        flush();
        plain(all, i, ascii);
        i = ascii;
        continue;
      }
      const TextRange origin = text.origin()[i];
      character(unicode::next(all, i), origin);
    }
    flush();
  }

 private:
  static Scratch& scratch() {
    thread_local Scratch buffers;
    return buffers;
  }

  [[nodiscard]] char plain(char byte) const { return ascii_[static_cast<unsigned char>(byte)]; }

  void plain(std::string_view all, std::size_t begin, std::size_t end) {
    while (begin < end) {
      std::size_t kept = begin;
      while (kept < end && plain(all[kept]) != kDropped) ++kept;
      output_.copy_mapped(begin, kept, [this](char byte) { return plain(byte); });
      begin = kept < end ? kept + 1 : end;
    }
  }

  void character(char32_t c, TextRange origin) {
    const std::uint16_t of = unicode::classes()(c);
    if (options_.clean_text) {
      if ((of & unicode::bert_dropped) != 0) return;
      if ((of & unicode::white_space) != 0) c = U' ';
    }
    if (options_.handle_chinese_chars && (of & unicode::cjk) != 0) {
      flush();
      output_.put(" ", origin);
      decompose(c, origin);
      flush();
      output_.put(" ", origin);
      return;
    }
    decompose(c, origin);
  }

  void decompose(char32_t c, TextRange origin) {
    if (!options_.strip_accents) return put(c, origin);
    if (!form_.joins(c)) flush();
    buffers_.run.push_back(c);
    buffers_.origin.push_back(origin);
  }

  /// Normalizes and writes the run.
  void flush() {
    if (buffers_.run.empty()) return;
    if (buffers_.run.size() == 1 && !form_.changes(buffers_.run[0])) {
      unaccented(buffers_.run[0], buffers_.origin[0]);
    } else {
      form_.apply(buffers_.run, buffers_.changed);
      std::size_t taken = 0;
      for (const ChangedCharacter& changed : buffers_.changed) {
        if (changed.change <= 0) ++taken;
        unaccented(changed.c, buffers_.origin[taken - 1]);
      }
    }
    buffers_.run.clear();
    buffers_.origin.clear();
  }

  void unaccented(char32_t c, TextRange origin) {
    if (!unicode::is(c, unicode::bert_mark)) put(c, origin);
  }

  void put(char32_t c, TextRange origin) {
    if (!options_.lowercase) return output_.put(unicode::Utf8(c), origin);
    put_lowercase(c, origin, output_);
  }

  const BertOptions& options_;
  const AsciiMap& ascii_;
  const NormalForm& form_;
  Output& output_;
  Scratch& buffers_ = scratch();
};

TextStep make_bert_normalizer(const PartConfig& config) {
  BertOptions options;
  options.clean_text = config.boolean("clean_text");
  options.handle_chinese_chars = config.boolean("handle_chinese_chars");
  options.lowercase = config.boolean("lowercase");
  options.strip_accents = config.boolean("strip_accents", options.lowercase);
  return [options, ascii = make_ascii_map(options)](PieceText& text) {
    const NormalForm& form = NormalForm::get<NormalForm::nfd>();
    text.rewrite([&](const Piece& piece, Output& output) {
      BertRewrite(options, ascii, form, output).piece(text, piece);
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
  return find_part(config, kNormalizers).make(config);
}

}  // namespace attnctl
