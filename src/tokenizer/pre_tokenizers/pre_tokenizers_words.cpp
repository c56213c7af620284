#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizer/pre_tokenizers/pre_tokenizer_parts.hpp"
#include "tokenizer/unicode/unicode.hpp"

// Pre-tokenizers that cut at every change of what kind of character stands there.
namespace attnctl {
namespace {

/// What a character does to the piece before it.
enum class Role { dropped, alone, first, second };

/// Cuts into runs of characters of one role; those that stand alone are pieces by themselves.
template <Role (*role_of)(std::uint16_t)>
void cut_by_role(std::string_view text, PieceText::Cuts& cuts) {
  const auto& classes = unicode::classes();
  std::size_t begin = 0;
  Role run = Role::dropped;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t at = i;
    const Role role = role_of(classes(unicode::next(text, i)));
    if (role == run && role != Role::alone) continue;
    if (run != Role::dropped) cuts.add(begin, at);
    begin = at;
    run = role;
  }
  if (run != Role::dropped) cuts.add(begin, text.size());
}

Role bert_role(std::uint16_t classes) {
  if ((classes & unicode::white_space) != 0) return Role::dropped;
  return (classes & unicode::bert_punctuation) != 0 ? Role::alone : Role::first;
}

Role word_role(std::uint16_t classes) {
  if ((classes & unicode::word) != 0) return Role::first;
  return (classes & unicode::white_space) != 0 ? Role::dropped : Role::second;
}

Role white_space_role(std::uint16_t classes) {
  return (classes & unicode::white_space) != 0 ? Role::dropped : Role::first;
}

template <Role (*role_of)(std::uint16_t)>
class RolePreTokenizer final : public PreTokenizer {
 public:
  void cut(PieceText& text) const override {
    text.cut([](const PieceText::Piece& /*piece*/, std::string_view piece_text, PieceText::Cuts& cuts) {
      cut_by_role<role_of>(piece_text, cuts);
    });
  }
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(std::size_t length) : length_(length) {}

  void cut(PieceText& text) const override {
    text.cut([this](const PieceText::Piece& /*piece*/, std::string_view piece_text, PieceText::Cuts& cuts) {
      std::size_t begin = 0;
      std::size_t count = 0;
      for (std::size_t i = 0; i < piece_text.size();) {
        unicode::next(piece_text, i);
        if (++count < length_ && i < piece_text.size()) continue;
        cuts.add(begin, i);
        begin = i;
        count = 0;
      }
    });
  }

 private:
  std::size_t length_;  // code points
};

}  // namespace

PreTokenizerPtr make_bert_pre_tokenizer(const PartConfig& /*config*/) {
  return std::make_unique<const RolePreTokenizer<bert_role>>();
}

PreTokenizerPtr make_whitespace(const PartConfig& /*config*/) {
  return std::make_unique<const RolePreTokenizer<word_role>>();
}

PreTokenizerPtr make_whitespace_split(const PartConfig& /*config*/) {
  return std::make_unique<const RolePreTokenizer<white_space_role>>();
}

PreTokenizerPtr make_fixed_length(const PartConfig& config) {
  const std::int64_t length = config.integer("length", 5);
  if (length < 1) config.refuse("length", "expected at least 1, found " + std::to_string(length));
  return std::make_unique<const FixedLength>(static_cast<std::size_t>(length));
}

}  // namespace attnctl
