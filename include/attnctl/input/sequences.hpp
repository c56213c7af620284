#pragma once

#include "attnctl/input/batch.hpp"
#include "attnctl/tokenizer/vocabulary.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attnctl {

/// "101,7592,102" as ids. Throws Error(bad_input): an empty list, a negative, fractional or too large id.
[[nodiscard]] std::vector<std::int64_t> parse_ids(std::string_view list);

enum class InputFormat { json, jsonl };

/// Adds the sequences of a document to the batch: one object a line (jsonl; blank lines are skipped), or one
/// object or an array of them (json). An object holds "tokens" (each in the vocabulary), or "ids" with
/// optional "token_type_ids"; both with an optional "mask" (1 = this key is visible) and "id". `name` is the
/// file in errors, which give the line or the JSON pointer. Throws Error(bad_input).
void read_sequences(std::string_view text, InputFormat format, const std::string& name,
                    const Vocabulary& vocabulary, Batch& batch);

/// Completes a batch: numbers the sequences without an id of their own, refuses a repeated id and an empty
/// sequence, fills in tokens, special and separator flags from the vocabulary.
void finish_batch(Batch& batch, const Vocabulary& vocabulary);

}  // namespace attnctl
