#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "input/conllu.hpp"
#include "input/text_input.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace {

using namespace attnctl;

/// Words stand in the text, in order, and heads are words.
void check(const ConlluSentence& sentence) {
  if (find_ill_formed_utf8(sentence.text)) std::abort();
  const std::size_t length = unicode::count_code_points(sentence.text);
  TextRange before;
  for (const ConlluWord& each : sentence.words) {
    const TextRange range = each.word.range;
    if (range.begin > range.end || range.end > length) std::abort();
    if (range.begin < before.begin || range.end < before.end) std::abort();
    if (each.head.value_or(0) > sentence.words.size()) std::abort();
    before = range;
  }
}

}  // namespace

// A treebank, and the same bytes as every other kind of text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    std::vector<ConlluSentence> sentences;
    read_conllu(text, {"fuzz", 0, 1}, sentences);
    for (const ConlluSentence& sentence : sentences) check(sentence);
  } catch (const Error& error) {
    if (escaped(error.what()) != error.what()) std::abort();
  }
  for (const InputFormat format :
       {InputFormat::txt, InputFormat::json, InputFormat::jsonl, InputFormat::conllu}) {
    try {
      std::vector<TextInput> inputs;
      read_text_inputs(text, format, {"fuzz", 0, 1}, inputs);
    } catch (const Error& error) {
      if (escaped(error.what()) != error.what()) std::abort();
    }
  }
  return 0;
}
