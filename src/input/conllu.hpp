#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "input/text_input.hpp"
#include "input/words.hpp"

namespace attnctl::input {

/// The kind of the head word of a mention: a pronoun, a proper noun, or another word (nominal). In CoNLL-U,
/// the UPOS tags PRON and DET mean pronoun, PROPN means proper noun, and any other tag except "_" means
/// nominal.
enum class MentionType { pronoun, proper, nominal };

/// Words of a text that refer to an entity, such as a person. Mentions of the same entity corefer.
struct Mention {
  std::string entity;
  std::vector<std::size_t> words;   // word indices from 0, ascending, possibly with gaps
  std::size_t head = 0;             // index of the head word; an element of `words`
  std::optional<MentionType> type;  // kind of the head word; nullopt: unknown
};

/// A word (a row whose ID is an integer) and its annotation. Words from mentions_of() have only `word`.
struct ConlluWord {
  TextWord word;  // form, and range in the text of the sentence
  std::string upos;
  std::string deprel;  // relation with its subtype, such as "nsubj:pass"
  /// Number of the head word, from 1; 0: this word is the root; nullopt: "_".
  std::optional<std::uint32_t> head;
};

struct ConlluSentence {
  std::string id;          // value of "# sent_id"; empty if there is none
  std::string text;        // value of "# text", or the forms joined according to SpaceAfter
  std::uint64_t line = 0;  // line number of the first word; 0 for a JSON object
  std::vector<ConlluWord> words;
  /// From Entity= in MISC, ordered by their first words; or from "mentions" of a JSON object, in its order.
  std::vector<Mention> mentions;
};

[[nodiscard]] TextInput text_of(const ConlluSentence& sentence);

/// Returns whether a line looks like the first line of a CoNLL-U file: a comment such as "# text = ..." or
/// "# newdoc", or a row of ten columns that begins with a number or a range.
[[nodiscard]] bool begins_conllu(std::string_view line);

/// Parses a block of a CoNLL-U file and appends its sentences to `sentences`. The block must end at a blank
/// line or at the end of the file; lines may end in CRLF. A multiword token, such as "don't", consists of
/// several words ("do" and "n't"). If the forms of these words, joined, are the token's form, each word has
/// its own range; otherwise each word has the whole range of the token.
/// Empty nodes (such as ID 8.1) do not become words, but their IDs are checked and their Entity= is read. The
/// head of a mention is its first word whose HEAD is 0 or outside of the mention; if HEADs of all its words
/// are missing or inside of the mention, its last word.
///
/// Throws Error(bad_input) with the byte offset if the block is not UTF-8, and with the line number if it is
/// not valid CoNLL-U: for example if a row does not have ten columns, IDs are not consecutive, HEADs are out
/// of range or form a cycle, forms do not match the text, or the brackets of Entity= do not match.
void read_conllu(std::string_view block, const TextPlace& place, std::vector<ConlluSentence>& sentences);

}  // namespace attnctl::input
