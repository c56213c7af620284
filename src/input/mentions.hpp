#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attnctl {

/// What a mention's head is: a pronoun (PRON, DET), a proper noun (PROPN), or anything else.
enum class MentionType { pronoun, proper, nominal };

/// Words of a text that refer to something. Mentions of one entity corefer.
struct Mention {
  std::string entity;
  std::vector<std::size_t> words;   // from 0, ascending; they may have gaps
  std::size_t head = 0;             // one of the words
  std::optional<MentionType> type;  // nullopt: nothing says
};

/// nullopt for "" and "_".
[[nodiscard]] std::optional<MentionType> mention_type(std::string_view upos);

/// Reads the brackets of MISC's Entity= as CorefUD and GUM have them, one sentence after the other: "(e1-..."
/// opens a mention of e1, "e1)" closes the last one that is open, "(e1-...)" does both; "(e1[1/2]-..." is the
/// first part of a mention with gaps. What follows a "-" is not looked at.
class EntityBrackets {
 public:
  /// The value at a node: what opens there begins with word `next`, what closes ends before word `end` (both
  /// from 0; of a word next + 1 == end, of an empty node next == end). Mentions without words are left out. A
  /// value without any bracket is something else and ignored. Returns what is wrong, empty: nothing.
  [[nodiscard]] std::string read(std::string_view value, std::size_t next, std::size_t end);
  /// The sentence ends: its mentions, by their first words, of equal ones the longest first; heads and types
  /// are not set. `wrong`: empty, or what is.
  [[nodiscard]] std::vector<Mention> finish(std::string& wrong);

 private:
  struct Open {
    std::string label;  // "e1[1/2]"
    std::size_t first = 0;
  };
  [[nodiscard]] std::string close(const Open& open, std::size_t end);

  std::vector<Open> open_;
  std::vector<Mention> mentions_;
};

}  // namespace attnctl
