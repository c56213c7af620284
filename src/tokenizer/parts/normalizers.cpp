#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "base/text.hpp"
#include "tokenizer/parts/parts.hpp"
#include "tokenizer/regex/regex.hpp"

namespace attnctl::tokenizer {
namespace {

using unicode::ChangedCharacter;
using unicode::NormalForm;
using Piece = PieceText::Piece;
using Output = PieceText::Output;

/// Returns the end of the run (see NormalForm) that starts at byte `begin`. Returns `begin` if the run is
/// a single character that normalizing does not change; longer runs are not tested.
std::size_t changed_run_end(const NormalForm& form, std::string_view text, std::size_t begin,
                            std::size_t end) {
  std::size_t i = begin;
  const char32_t first = unicode::next(text, i);
  if (first < 0x80 && (i == end || unicode::is_ascii(text[i])))
    return begin;  // ASCII characters do not change and do not join a run
  const std::size_t one = i;
  for (std::size_t ahead = i; ahead < end && form.joins(unicode::next(text, ahead));) i = ahead;
  return i == one && !form.changes(first) ? begin : i;
}

/// Writes the new characters of one piece and computes their origins. If a replacement has fewer characters
/// than the old text, its last character (or, if the replacement is empty, the new character before it) also
/// replaces the remaining old characters. Therefore each character is written one step late. If the text at
/// the beginning of a piece is replaced by nothing, there is no earlier character, and the origins of all
/// later characters are too far left, as in Hugging Face tokenizers.
class Changes {
 public:
  Changes(const PieceText& text, const Piece& piece, Output& output)
      : text_(text), piece_(piece), output_(output), at_(piece.begin) {}

  void put(char32_t c, int change) {
    flush();
    last_ = {c, change};
    waiting_ = true;
  }

  void replace(std::string_view old_text, std::string_view new_text) {
    const auto old_count = static_cast<int>(unicode::count_code_points(old_text));
    int count = 0;
    for (std::size_t i = 0; i < new_text.size(); ++count) {
      put(unicode::next(new_text, i), count < old_count ? 0 : 1);
    }
    if (count < old_count && waiting_) last_.change -= old_count - count;
  }

  /// Copies unchanged bytes [begin, end). Returns false and copies nothing if the origins are shifted.
  bool copy(std::size_t begin, std::size_t end) {
    flush();
    if (at_ != begin) return false;
    output_.copy(begin, end);
    at_ = end;
    return true;
  }

  /// Writes the character that is not written yet. Must be called at the end of the piece.
  void flush() {
    if (!waiting_) return;
    waiting_ = false;
    const bool is_inserted = last_.change > 0;
    output_.put(unicode::Utf8(last_.c),
                is_inserted && at_ == piece_.begin
                    ? text_.origin_before(piece_)
                    : text_.origin()[is_inserted || at_ == piece_.end ? at_ - 1 : at_]);
    for (int replaced = 1 - last_.change; replaced > 0 && at_ < piece_.end; --replaced) {
      unicode::next(text_.text(), at_);
    }
  }

 private:
  const PieceText& text_;
  const Piece& piece_;
  Output& output_;
  std::size_t at_;  // byte offset in the old text
  ChangedCharacter last_;
  bool waiting_ = false;
};

void put_run(const NormalForm& form, const PieceText& text, const Piece& run, Output& output) {
  thread_local std::vector<char32_t> characters;
  thread_local std::vector<ChangedCharacter> changed;
  characters.clear();
  for (std::size_t i = run.begin; i < run.end;) characters.push_back(unicode::next(text.text(), i));
  form.apply(characters, changed);
  Changes changes(text, run, output);
  for (const auto& [c, change] : changed) changes.put(c, change);
  changes.flush();
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

/// Returns what the normalizer Nmt (neural machine translation) does with a character.
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
        // As in Hugging Face tokenizers, the origin of the first character is then an empty range.
        output.put(text.text().substr(piece.begin, after - piece.begin), text.origin_before(piece));
      } else {
        output.put(prefix, text.origin()[piece.begin]);
        output.copy(piece.begin, after);
      }
      output.copy(after, piece.end);
    });
  };
}

TextStep make_replace(const PartConfig& config) {
  return [pattern = read_pattern(config), content = config.string("content")](PieceText& text) {
    thread_local std::vector<Regex::Match> matches;
    text.rewrite([&](const Piece& piece, Output& output) {
      pattern.find_all(text.text(piece), matches);
      std::size_t copied = piece.begin;
      for (const auto& [first, last] : matches) {
        const std::size_t end = piece.begin + last;
        output.copy(copied, piece.begin + first);
        // The content has the origin of the last replaced character or, for an empty match, of the character
        // before the match; at the beginning of the piece this origin is an empty range.
        output.put(content, end == piece.begin ? text.origin_before(piece) : text.origin()[end - 1]);
        copied = end;
      }
      output.copy(copied, piece.end);
    });
  };
}

/// Applies those of the steps clean_text, handle_chinese_chars, strip_accents (default: as lowercase) and
/// lowercase whose option is true, in this order. With strip_accents, characters that NFD may reorder are
/// collected in a run first.
class BertNormalizer {
 public:
  explicit BertNormalizer(const PartConfig& config)
      : clean_text_(config.boolean("clean_text")),
        handle_chinese_chars_(config.boolean("handle_chinese_chars")),
        lowercase_(config.boolean("lowercase")),
        strip_accents_(config.boolean("strip_accents", lowercase_)) {
    for (std::size_t i = 0; i < ascii_.size(); ++i) {
      const auto c = static_cast<char32_t>(i);
      const std::uint16_t of = unicode::classes()(c);
      ascii_[i] = static_cast<char>(lowercase_ ? unicode::to_lower(c) : c);
      if (clean_text_ && (of & unicode::white_space) != 0) ascii_[i] = ' ';
      if (clean_text_ && (of & unicode::bert_dropped) != 0) ascii_[i] = kDropped;
    }
  }

  void operator()(PieceText& text) const {
    thread_local AccentRun run;
    run.characters.clear();  // an error in an earlier text may have left a run
    run.origin.clear();
    text.rewrite([&](const Piece& piece, Output& output) {
      const std::string_view all = text.text();
      for (std::size_t i = piece.begin; i < piece.end;) {
        std::size_t ascii = unicode::ascii_end(all, i, piece.end);
        if (ascii > i && ascii < piece.end) --ascii;  // the last ASCII character may be followed by a mark
        if (ascii > i) {
          flush(run, output);
          put_ascii(all, i, ascii, output);
          i = ascii;
          continue;
        }
        const TextRange origin = text.origin()[i];
        put(unicode::next(all, i), origin, run, output);
      }
      flush(run, output);
    });
  }

 private:
  struct AccentRun {
    std::vector<char32_t> characters;
    std::vector<TextRange> origin;  // [characters]
    std::vector<ChangedCharacter> changed;
  };
  static constexpr char kDropped = '\xFF';  // value of `ascii_` for a character that is dropped

  [[nodiscard]] char plain(char byte) const { return ascii_[static_cast<unsigned char>(byte)]; }

  void put_ascii(std::string_view all, std::size_t begin, std::size_t end, Output& output) const {
    while (begin < end) {
      std::size_t kept = begin;
      while (kept < end && plain(all[kept]) != kDropped) ++kept;
      output.copy_mapped(begin, kept, [this](char byte) { return plain(byte); });
      begin = kept < end ? kept + 1 : end;
    }
  }

  void put(char32_t c, TextRange origin, AccentRun& run, Output& output) const {
    const std::uint16_t of = unicode::classes()(c);
    if (clean_text_) {
      if ((of & unicode::bert_dropped) != 0) return;
      if ((of & unicode::white_space) != 0) c = U' ';
    }
    const bool is_spaced = handle_chinese_chars_ && (of & unicode::cjk) != 0;
    if (is_spaced) {
      flush(run, output);
      output.put(" ", origin);
    }
    if (strip_accents_) {
      if (!form_.joins(c)) flush(run, output);
      run.characters.push_back(c);
      run.origin.push_back(origin);
    } else {
      put_cased(c, origin, output);
    }
    if (is_spaced) {
      flush(run, output);
      output.put(" ", origin);
    }
  }

  void flush(AccentRun& run, Output& output) const {
    if (run.characters.empty()) return;
    if (run.characters.size() == 1 && !form_.changes(run.characters[0])) {
      put_unaccented(run.characters[0], run.origin[0], output);
    } else {
      form_.apply(run.characters, run.changed);
      std::size_t taken = 0;
      for (const ChangedCharacter& changed : run.changed) {
        if (changed.change <= 0) ++taken;
        put_unaccented(changed.c, run.origin[taken - 1], output);
      }
    }
    run.characters.clear();
    run.origin.clear();
  }

  void put_unaccented(char32_t c, TextRange origin, Output& output) const {
    if (!unicode::is(c, unicode::bert_mark)) put_cased(c, origin, output);
  }

  void put_cased(char32_t c, TextRange origin, Output& output) const {
    if (lowercase_) return put_lowercase(c, origin, output);
    output.put(unicode::Utf8(c), origin);
  }

  bool clean_text_;
  bool handle_chinese_chars_;
  bool lowercase_;
  bool strip_accents_;
  std::array<char, 128> ascii_{};  // the replacement of each ASCII character
  const NormalForm& form_ = NormalForm::get<NormalForm::nfd>();
};

constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kUnitSize = sizeof(std::uint32_t);
static_assert(std::endian::native == std::endian::little, "units are stored in little-endian order");

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && text.size() > padding && text[text.size() - 1 - padding] == '=') ++padding;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = i + padding < text.size() ? kBase64Digits.find(text[i]) : 0;
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6U | static_cast<std::uint32_t>(digit);
    if (i % 4 != 3) continue;
    for (const unsigned shift : {16U, 8U, 0U}) bytes += static_cast<char>(bits >> shift & 0xFFU);
    bits = 0;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

/// Grapheme clusters of this number of bytes or more are looked up only character by character.
constexpr std::size_t kLongestCluster = 6;

class Precompiled {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {
    for (std::size_t i = 0; i < unchanged_.size(); ++i) {
      const auto c = static_cast<char>(i);
      unchanged_[i] = c != '\r' && !map_.find({&c, 1});
    }
  }

  void operator()(PieceText& text) const {
    text.rewrite([&](const Piece& piece, Output& output) {
      Changes changes(text, piece, output);
      const std::string_view all = text.text();
      for (std::size_t i = piece.begin; i < piece.end;) {
        i = copy_unchanged(all, i, piece.end, changes);
        const std::size_t end = unicode::cluster_end(all, i, piece.end);
        replace_cluster(all.substr(i, end - i), changes);
        i = end;
      }
      changes.flush();
    });
  }

 private:
  /// Copies the ASCII characters from `begin` on that do not change, except the last two, and returns the
  /// position of these two. The second may be in a grapheme cluster with the next character. If this cluster
  /// is replaced by nothing, the first also replaces it (see Changes). Returns `begin` if nothing is copied.
  std::size_t copy_unchanged(std::string_view all, std::size_t begin, std::size_t end,
                             Changes& changes) const {
    constexpr std::size_t kLeft = 2;
    std::size_t i = begin;
    while (i < end && unicode::is_ascii(all[i]) && unchanged_[static_cast<unsigned char>(all[i])]) ++i;
    if (i - begin <= kLeft || !changes.copy(begin, i - kLeft)) return begin;
    return i - kLeft;
  }

  void replace_cluster(std::string_view cluster, Changes& changes) const {
    if (cluster.size() < kLongestCluster) {
      if (const auto replacement = map_.find(cluster)) return changes.replace(cluster, *replacement);
    }
    for (std::size_t i = 0; i < cluster.size();) {
      const std::size_t begin = i;
      const char32_t c = unicode::next(cluster, i);
      const std::string_view character = cluster.substr(begin, i - begin);
      if (const auto replacement = map_.find(character)) {
        changes.replace(character, *replacement);
      } else {
        changes.put(c, 0);
      }
    }
  }

  Charsmap map_;
  std::array<bool, 128> unchanged_{};  // [128], false for \r and for characters that the charsmap replaces
};

TextStep make_precompiled(const PartConfig& config) {
  const PartConfig map = config.at("precompiled_charsmap");
  if (!map.node().is_binary()) (void)config.string("precompiled_charsmap");  // throws if it is not a string
  return Precompiled(Charsmap(map));
}

constexpr PartRow<TextStep> kNormalizers[] = {
    {"Sequence",
     [](const PartConfig& config) -> TextStep {
       return in_sequence(config, "normalizers", make_normalizer);
     }},
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
    {"BertNormalizer", [](const PartConfig& config) -> TextStep { return BertNormalizer(config); }},
    {"ByteLevel", [](const PartConfig&) -> TextStep { return write_byte_characters; }},
    {"Nmt", make_filter<for_translation>},
};

}  // namespace

TextStep make_normalizer(const PartConfig& config) {
  return find_part(config, kNormalizers).make(config);
}

Charsmap::Charsmap(const PartConfig& where) : place_(where.place()) {
  std::optional<std::string> bytes;
  if (where.node().is_binary()) {
    bytes.emplace(where.node().get_binary().begin(), where.node().get_binary().end());
  } else {
    bytes = from_base64(where.node().get_ref<const std::string&>());
  }
  if (!bytes)
    where.refuse("", "expected base64, found other characters or a length that is not a multiple of 4");
  if (bytes->size() < kUnitSize) {
    where.refuse("", fmt::format("expected a charsmap, found {} bytes", bytes->size()));
  }
  std::uint32_t size = 0;
  std::memcpy(&size, bytes->data(), kUnitSize);
  const std::string_view rest = std::string_view(*bytes).substr(kUnitSize);
  if (size > rest.size() || size % kUnitSize != 0 || size == 0) {
    where.refuse(
        "",
        fmt::format(
            "got a trie of {} bytes; need a multiple of 4, at least 4 and at most the {} bytes that follow",
            size, rest.size()));
  }
  units_.resize(size / kUnitSize);
  std::memcpy(units_.data(), rest.data(), size);
  replacements_ = rest.substr(size);
  if (find_ill_formed_utf8(replacements_)) where.refuse("", "the replacements of the charsmap are not UTF-8");
}

void Charsmap::damaged() const {
  refuse(place_,
         "the charsmap has an offset that is too large or inside of a character; the file is damaged");
}

std::optional<std::string_view> Charsmap::find(std::string_view text) const {
  const auto unit = [&](std::size_t at) {
    if (at >= units_.size()) damaged();
    return units_[at];
  };
  const auto children = [](std::uint32_t node) {
    return std::size_t{node >> 10U} << ((node & 0x200U) >> 6U);  // the offset is in 256 nodes if bit 9 is 1
  };
  std::size_t at = children(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return std::nullopt;
    at ^= byte;
    const std::uint32_t node = unit(at);
    // The comparison includes bit 31, which is 1 in leaves, so that no byte equals the label of a leaf.
    if ((node & 0x800000FFU) != byte) return std::nullopt;
    at ^= children(node);
    const bool has_leaf = (node >> 8U & 1U) != 0;
    if (!has_leaf) continue;
    const std::size_t begin = unit(at) & 0x7FFFFFFFU;
    if (begin > replacements_.size()) damaged();
    const std::string_view replacement = std::string_view(replacements_).substr(begin);
    if (!replacement.empty() && U8_IS_TRAIL(replacement[0])) damaged();
    return replacement.substr(0, replacement.find('\0'));
  }
  return std::nullopt;
}

}  // namespace attnctl::tokenizer
