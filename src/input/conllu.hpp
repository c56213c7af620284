#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "input/mentions.hpp"
#include "input/text_blocks.hpp"
#include "input/words.hpp"

namespace attnctl {

/// A word of a sentence of CoNLL-U (ID an integer) and its annotation, which is as the file has it.
struct ConlluWord {
  TextWord word;  // its characters in the sentence's text
  std::string upos;
  std::string deprel;                 // subtype kept
  std::optional<std::uint32_t> head;  // 0: the root; else the number of a word, from 1; nullopt: "_"
};

/// A token that stands for several words ("don't": do, n't): words [first, last] from 0.
struct MultiwordToken {
  TextWord token;
  std::size_t first = 0;
  std::size_t last = 0;
};

struct ConlluSentence {
  std::string id;          // # sent_id, empty where there is none
  std::string text;        // # text, else forms joined as SpaceAfter says
  std::uint64_t line = 0;  // of its first word in the file
  std::vector<ConlluWord> words;
  std::vector<MultiwordToken> multiword;
  std::vector<Mention> mentions;  // as MISC's Entity= tells, by their first words
};

/// Appends the sentences of a block that ends at a blank line, or at the end of the file. A word's characters
/// follow from its form and SpaceAfter; the words of a multiword token share its characters in order where
/// their forms add up to it, else each has all of them. Empty nodes (8.1) are left out. Lines may end in
/// CRLF. Throws Error(bad_input) with the line: not UTF-8, not ten columns, a repeated or skipped ID, a range
/// that is reversed or overlaps, a HEAD that is out of range or leads in a circle, forms that are not the
/// text, brackets of Entity= that do not match.
///
/// The head of a mention is the first of its words whose HEAD is outside of it, its last word where no HEAD
/// is known.
void read_conllu(std::string_view block, const TextPlace& place, std::vector<ConlluSentence>& sentences);

}  // namespace attnctl
