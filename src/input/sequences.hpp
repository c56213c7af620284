#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "input/batch.hpp"
#include "input/text_input.hpp"
#include "input/text_sequence.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// "101,7592,102" as ids. Throws Error(bad_input): an empty list, a negative, fractional or too large id;
/// `option` is for errors.
[[nodiscard]] std::vector<std::int64_t> parse_ids(std::string_view list, std::string_view option = "--ids");

/// Puts a token before those of a text, as one that the tokenizer added.
void put_first(std::int64_t id, Sequence& sequence);

/// What understands inputs: the vocabulary for tokens, the tokenizer for text.
struct InputReaders {
  const Vocabulary& vocabulary;
  TextEncoder& encoder;
};

/// Adds the sequences of a file to the batch; returns how many blank lines of text were skipped. Text is as
/// read_text_inputs has it; objects of json and jsonl hold "text", "tokens" (each in the vocabulary), or
/// "ids"; the last two with optional "token_type_ids" and "mask" (1 = this key is visible), all with an
/// optional "id". `name` is the file in errors, which give the line or the JSON pointer. Throws
/// Error(bad_input).
std::uint64_t read_sequences(std::string_view text, InputFormat format, const std::string& name,
                             const InputReaders& readers, Batch& batch);

/// Cuts the sequences of ids to `most` tokens, with what goes along (--truncate); texts are cut when they are
/// tokenized.
void truncate_ids(Batch& batch, std::size_t most);

/// Completes a batch: numbers the sequences without an id of their own, refuses a repeated id and an empty
/// sequence, fills in tokens, special and separator flags from the vocabulary.
void finish_batch(Batch& batch, const Vocabulary& vocabulary);

}  // namespace attnctl
