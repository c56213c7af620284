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
void check(const input::ConlluSentence& sentence) {
  if (find_ill_formed_utf8(sentence.text)) std::abort();
  const std::size_t length = tokenizer::unicode::count_code_points(sentence.text);
  tokenizer::TextRange before;
  for (const input::ConlluWord& each : sentence.words) {
    const tokenizer::TextRange range = each.word.range;
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
    std::vector<input::ConlluSentence> sentences;
    input::read_conllu(text, {"fuzz", 0, 1}, sentences);
    for (const input::ConlluSentence& sentence : sentences) check(sentence);
  } catch (const Error& error) {
    if (escaped(error.what()) != error.what()) std::abort();
  }
  for (const input::InputFormat format : {input::InputFormat::txt, input::InputFormat::json,
                                          input::InputFormat::jsonl, input::InputFormat::conllu}) {
    try {
      std::vector<input::TextInput> inputs;
      input::read_text_inputs(text, format, {"fuzz", 0, 1}, inputs);
    } catch (const Error& error) {
      if (escaped(error.what()) != error.what()) std::abort();
    }
  }
  return 0;
}
