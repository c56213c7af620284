#include <cstddef>
#include <vector>

#include "fuzz.hpp"
#include "input/conllu.hpp"
#include "input/text_input.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace {

using namespace attnctl;

/// Words stand in the text, in order, and heads are words.
void check(const input::ConlluSentence& sentence) {
  fuzz::require(!find_ill_formed_utf8(sentence.text), "a text is UTF-8");
  const std::size_t length = tokenizer::unicode::count_code_points(sentence.text);
  tokenizer::TextRange before;
  for (const input::ConlluWord& each : sentence.words) {
    const tokenizer::TextRange range = each.word.range;
    fuzz::require(range.begin <= range.end && range.end <= length, "a word lies inside of the text");
    fuzz::require(range.begin >= before.begin && range.end >= before.end, "words are in order");
    fuzz::require(each.head.value_or(0) <= sentence.words.size(), "a head is a word");
    before = range;
  }
}

}  // namespace

// A treebank, and the same bytes as lines of text.
ATTNCTL_FUZZ_TARGET(conllu) {
  fuzz::attempt([&] {
    std::vector<input::ConlluSentence> sentences;
    input::read_conllu(bytes, {"fuzz", 0, 1}, sentences);
    for (const input::ConlluSentence& sentence : sentences) check(sentence);
  });
  for (const input::InputFormat format : {input::InputFormat::txt, input::InputFormat::conllu}) {
    std::vector<input::TextInput> inputs;
    fuzz::attempt([&] { input::read_text_inputs(bytes, format, {"fuzz", 0, 1}, inputs); });
  }
}
