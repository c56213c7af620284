#include "tokenizer/normalizers/normalizer.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tokenizer/normalizers/bert_normalizer.hpp"
#include "tokenizer/normalizers/charsmap.hpp"
#include "tokenizer/normalizers/replace_normalizer.hpp"
#include "tokenizer/normalizers/rewriting.hpp"
#include "tokenizer/pre_tokenizers/byte_level.hpp"
#include "tokenizer/unicode/normal_form.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

constexpr std::size_t deepest_sequence = 32;

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<NormalizerPtr> parts) : parts_(std::move(parts)) {}
  void normalize(PieceText& text) const override {
    for (const NormalizerPtr& part : parts_) part->normalize(text);
  }

 private:
  std::vector<NormalizerPtr> parts_;
};

/// NFC and the like: run by run, what stays is copied.
class Form final : public Normalizer {
 public:
  explicit Form(NormalForm::Kind kind) : form_(NormalForm::get(kind)) {}

  void normalize(PieceText& text) const override {
    text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
      const std::string_view all = text.text();
      std::size_t copied = piece.begin;
      for (std::size_t begin = piece.begin; begin < piece.end;) {
        const std::size_t end = run_end(all, begin, piece.end);
        if (end != begin) {
          output.copy(copied, begin);
          put_run(text, {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)}, output);
          begin = copied = end;
        } else {
          unicode::next(all, begin);
        }
      }
      output.copy(copied, piece.end);
    });
  }

 private:
  /// The end of the run at `begin`; `begin` itself where that run stays as it is.
  [[nodiscard]] std::size_t run_end(std::string_view all, std::size_t begin, std::size_t end) const {
    std::size_t i = begin;
    const char32_t first = unicode::next(all, i);
    // No character of ASCII changes or joins.
    if (first < 0x80 && (i == end || is_ascii(all[i]))) return begin;
    const std::size_t one = i;
    for (std::size_t ahead = i; ahead < end && form_.joins(unicode::next(all, ahead));) i = ahead;
    return i == one && !form_.changes(first) ? begin : i;
  }

  void put_run(const PieceText& text, const PieceText::Piece& run, PieceText::Output& output) const {
    thread_local std::vector<char32_t> characters;
    thread_local std::vector<ChangedCharacter> changed;
    characters.clear();
    for (std::size_t i = run.begin; i < run.end;) characters.push_back(unicode::next(text.text(), i));
    form_.apply(characters, changed);
    OriginCursor cursor(text, run);
    for (const ChangedCharacter& x : changed) output.put(unicode::Utf8(x.c), cursor.take(x.change));
  }

  const NormalForm& form_;
};

class Lowercase final : public Normalizer {
 public:
  void normalize(PieceText& text) const override {
    text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
      const std::string_view all = text.text();
      for (std::size_t i = piece.begin; i < piece.end;) {
        const std::size_t ascii = ascii_end(all, i, piece.end);
        output.map(i, ascii, [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 0x20) : c; });
        i = ascii;
        if (i == piece.end) break;
        const TextRange origin = text.origin()[i];
        const char32_t c = unicode::next(all, i);
        output.put(unicode::Utf8(unicode::to_lower(c)), origin);
        if (c == unicode::dotted_capital_i) output.put(unicode::Utf8(unicode::dot_above), origin);
      }
    });
  }
};

/// Takes characters away, or puts a space in their place.
class Filter final : public Normalizer {
 public:
  enum class Fate { kept, dropped, space };
  explicit Filter(Fate (*fate)(char32_t)) : fate_(fate) {}

  void normalize(PieceText& text) const override {
    text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
      std::size_t copied = piece.begin;
      for (std::size_t i = piece.begin; i < piece.end;) {
        const std::size_t at = i;
        const Fate fate = fate_(unicode::next(text.text(), i));
        if (fate == Fate::kept) continue;
        output.copy(copied, at);
        if (fate == Fate::space) output.put(" ", text.origin()[at]);
        copied = i;
      }
      output.copy(copied, piece.end);
    });
  }

 private:
  Fate (*fate_)(char32_t);
};

Filter::Fate without_mark(char32_t c) {
  return unicode::is(c, unicode::mark) ? Filter::Fate::dropped : Filter::Fate::kept;
}

/// The rules of neural machine translation: controls go, what looks like a space becomes one.
Filter::Fate for_translation(char32_t c) {
  constexpr std::u32string_view spaces =
      U"\t\n\f\r\u1680\u200B\u200C\u200D\u200E\u200F\u2028\u2029\u2581\uFEFF\uFFFD";
  if (spaces.find(c) != std::u32string_view::npos) return Filter::Fate::space;
  const bool control = (c >= 0x01 && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  return control ? Filter::Fate::dropped : Filter::Fate::kept;
}

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  void normalize(PieceText& text) const override {
    text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
      std::size_t begin = piece.begin;
      std::size_t end = piece.end;
      for (std::size_t i = begin;
           left_ && i < end && unicode::is_white_space(unicode::next(text.text(), i));) {
        begin = i;
      }
      for (std::size_t i = end;
           right_ && i > begin && unicode::is_white_space(unicode::previous(text.text(), i));) {
        end = i;
      }
      output.copy(begin, end);
    });
  }

 private:
  bool left_;
  bool right_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}

  void normalize(PieceText& text) const override {
    text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
      std::size_t behind = piece.begin;
      unicode::next(text.text(), behind);
      if (prefix_.empty()) {
        // The reference puts the first character before itself.
        output.put(text.text().substr(piece.begin, behind - piece.begin), before_all(text, piece));
      } else {
        output.put(prefix_, text.origin()[piece.begin]);
        output.copy(piece.begin, behind);
      }
      output.copy(behind, piece.end);
    });
  }

 private:
  std::string prefix_;
};

class ByteLevel final : public Normalizer {
 public:
  void normalize(PieceText& text) const override { byte_level::write(text); }
};

NormalizerPtr make_sequence(const PartConfig& config) {
  const std::vector<PartConfig> parts = config.objects("normalizers");
  std::size_t depth = 0;
  for (std::size_t at = 0; (at = config.pointer().find("/normalizers/", at)) != std::string::npos; ++at)
    ++depth;
  if (depth >= deepest_sequence) {
    config.refuse(
        "", fmt::format("a Sequence in {} others; at most {} levels are supported", depth, deepest_sequence));
  }
  std::vector<NormalizerPtr> made;
  for (const PartConfig& part : parts) made.push_back(make_normalizer(part));
  return std::make_unique<Sequence>(std::move(made));
}

template <NormalForm::Kind kind>
NormalizerPtr make_form(const PartConfig&) {
  return std::make_unique<Form>(kind);
}

template <Filter::Fate (*fate)(char32_t)>
NormalizerPtr make_filter(const PartConfig&) {
  return std::make_unique<Filter>(fate);
}

constexpr PartRow<NormalizerPtr> normalizers[] = {
    {"Sequence", make_sequence},
    {"NFC", make_form<NormalForm::nfc>},
    {"NFD", make_form<NormalForm::nfd>},
    {"NFKC", make_form<NormalForm::nfkc>},
    {"NFKD", make_form<NormalForm::nfkd>},
    {"Lowercase", [](const PartConfig&) -> NormalizerPtr { return std::make_unique<Lowercase>(); }},
    {"StripAccents", make_filter<without_mark>},
    {"Strip",
     [](const PartConfig& config) -> NormalizerPtr {
       return std::make_unique<Strip>(config.boolean("strip_left"), config.boolean("strip_right"));
     }},
    {"Replace", make_replace},
    {"Prepend",
     [](const PartConfig& config) -> NormalizerPtr {
       return std::make_unique<Prepend>(config.string("prepend"));
     }},
    {"Precompiled", make_precompiled},
    {"BertNormalizer", make_bert_normalizer},
    {"ByteLevel", [](const PartConfig&) -> NormalizerPtr { return std::make_unique<ByteLevel>(); }},
    {"Nmt", make_filter<for_translation>},
};

}  // namespace

NormalizerPtr make_normalizer(const PartConfig& config) {
  return make_part(config, normalizers);
}

}  // namespace attnctl
