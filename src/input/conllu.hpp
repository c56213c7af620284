#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "input/text_input.hpp"
#include "input/words.hpp"

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

/// A word of a CoNLL-U sentence (integer ID) with its annotation.
struct ConlluWord {
  TextWord word;  // with its range in the sentence's text
  std::string upos;
  std::string deprel;                 // with subtype
  std::optional<std::uint32_t> head;  // number of a word from 1; 0: root; nullopt: "_"
};

/// A token of several words ("don't": do, n't), words [first, last] from 0.
struct MultiwordToken {
  TextWord token;
  std::size_t first = 0;
  std::size_t last = 0;
};

struct ConlluSentence {
  std::string id;          // "# sent_id", or empty
  std::string text;        // "# text", or the forms joined by SpaceAfter
  std::uint64_t line = 0;  // line of its first word
  std::vector<ConlluWord> words;
  std::vector<MultiwordToken> multiword;
  std::vector<Mention> mentions;  // of Entity= in MISC, by their first words
};

/// Returns a sentence as an input with the words of its annotation.
[[nodiscard]] TextInput text_of(const ConlluSentence& sentence);

/// Appends the sentences of a block that ends at a blank line or at the end of the file; lines may end in
/// CRLF. The words of a multiword token divide its range if their forms add up to it; otherwise each has the
/// whole range. Empty nodes (8.1) are skipped. The head of a mention is its first word whose HEAD is outside
/// of it, or its last word if no HEAD is known.
///
/// Throws Error(bad_input) with the line if the text is not UTF-8, a row does not have ten columns, IDs are
/// not consecutive, HEADs are out of range or form a cycle, forms do not match the text, or brackets of
/// Entity= do not match.
void read_conllu(std::string_view block, const TextPlace& place, std::vector<ConlluSentence>& sentences);

}  // namespace attnctl
