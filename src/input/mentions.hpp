#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attnctl {

/// The kind of a mention's head: a pronoun (PRON, DET), a proper noun (PROPN), or another word.
enum class MentionType { pronoun, proper, nominal };

/// Words of a text that refer to something. Mentions of one entity corefer.
struct Mention {
  std::string entity;
  std::vector<std::size_t> words;   // from 0, ascending; they may have gaps
  std::size_t head = 0;             // one of the words
  std::optional<MentionType> type;  // nullopt: unknown
};

/// Returns the kind of a word with this UPOS tag; nullopt for "" and "_".
[[nodiscard]] std::optional<MentionType> mention_type(std::string_view upos);

/// Parses the brackets of Entity= in MISC, as in CorefUD and GUM: "(e1-..." opens a mention of e1, "e1)"
/// closes the last open one, "(e1-...)" does both; "(e1[1/2]-..." is the first part of a mention with gaps.
/// Text after a "-" is ignored.
class EntityBrackets {
 public:
  /// Reads the value of one node: new mentions begin at word `next`, closed ones end before word `end` (from
  /// 0; for an empty node next == end). Ignores a value without brackets. Returns an error text, empty on
  /// success.
  [[nodiscard]] std::string read(std::string_view value, std::size_t next, std::size_t end);
  /// Ends the sentence and returns its mentions by their first words, longer ones first, without heads and
  /// types. Sets `wrong` to an error text, or to "".
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
