#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/normalizers/normalizer.hpp"
#include "tokenizer/unicode/normal_form.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

struct Options {
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

AsciiMap make_ascii_map(const Options& options) {
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

/// Rewrites one piece. Each character passes through all steps; characters that NFD may join wait in a run.
class Rewrite {
 public:
  Rewrite(const Options& options, const AsciiMap& ascii, const NormalForm& form, PieceText::Output& output)
      : options_(options), ascii_(ascii), form_(form), output_(output) {}

  void piece(const PieceText& text, const PieceText::Piece& piece) {
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
    output_.put(unicode::Utf8(unicode::to_lower(c)), origin);
    if (c == unicode::kDottedCapitalI) output_.put(unicode::Utf8(unicode::kDotAbove), origin);
  }

  const Options& options_;
  const AsciiMap& ascii_;
  const NormalForm& form_;
  PieceText::Output& output_;
  Scratch& buffers_ = scratch();
};

}  // namespace

TextStep make_bert_normalizer(const PartConfig& config) {
  Options options;
  options.clean_text = config.boolean("clean_text");
  options.handle_chinese_chars = config.boolean("handle_chinese_chars");
  options.lowercase = config.boolean("lowercase");
  options.strip_accents = config.optional_boolean("strip_accents").value_or(options.lowercase);
  return [options, ascii = make_ascii_map(options)](PieceText& text) {
    const NormalForm& form = NormalForm::get(NormalForm::nfd);
    text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
      Rewrite(options, ascii, form, output).piece(text, piece);
    });
  };
}

}  // namespace attnctl
