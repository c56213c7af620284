#include <cstddef>
#include <vector>

#include "fuzz.hpp"
#include "input/json_inputs.hpp"
#include "input/sequences.hpp"

// The inputs of a .json file and of a .jsonl file: texts with mentions, tokens, ids, masks and targets.
ATTNCTL_FUZZ_TARGET(inputs) {
  using namespace attnctl;
  static const tokenizer::Vocabulary vocabulary({"[PAD]", "a", "b", "", "[SEP]"}, {0, 4}, {"[SEP]"}, "b");
  for (const input::InputFormat format : {input::InputFormat::json, input::InputFormat::jsonl}) {
    fuzz::attempt([&] {
      input::Batch batch;
      input::for_each_json_input(bytes, format, {"fuzz", 0, 1}, [&](const input::JsonInput& input) {
        if (input.contains("target")) static_cast<void>(input.target_text());
        if (input.contains("target_ids")) static_cast<void>(input.target_ids());
        if (!input.contains("text")) {
          batch.sequences.push_back(input.sequence(vocabulary));
          return;
        }
        input::TextInput text = input.text();
        if (!input.contains("mentions")) return;
        const input::ConlluSentence sentence = input::mentions_of(input, text);
        for (const auto& mention : sentence.mentions)
          fuzz::require(mention.head < sentence.words.size(), "the head of a mention is a word");
      });
      input::finish_batch(batch, vocabulary);
    });
  }
}
