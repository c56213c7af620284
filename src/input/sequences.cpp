#include "input/sequences.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "input/input_ids.hpp"
#include "input/json_inputs.hpp"

namespace attnctl {

std::vector<std::int64_t> parse_ids(std::string_view list, std::string_view option) {
  std::vector<std::int64_t> ids;
  for (std::string_view word : split(list, ',')) {
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    std::int64_t id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || stop != word.data() + word.size() || id < 0) {
      fail(Status::bad_input, "{}: got \"{}\" at place {}, need integers from 0 with commas between", option,
           escaped(word), ids.size());
    }
    ids.push_back(id);
  }
  return ids;
}

std::uint64_t read_sequences(std::string_view text, InputFormat format, const std::string& name,
                             const InputReaders& readers, Batch& batch) {
  const TextPlace place{escaped(name), 0, 1};
  std::uint64_t blank = 0;
  if (format == InputFormat::txt || format == InputFormat::conllu) {
    std::vector<TextInput> inputs;
    blank = read_text_inputs(text, format, place, inputs);
    for (TextInput& input : inputs) batch.sequences.push_back(readers.encoder.encode(std::move(input)));
    return blank;
  }
  require_utf8(text, place);
  for_each_json_input(text, format, place, [&](const JsonInput& input) {
    batch.sequences.push_back(input.has_text() ? readers.encoder.encode(input.text())
                                               : input.sequence(readers.vocabulary));
  });
  return blank;
}

void put_first(std::int64_t id, Sequence& sequence) {
  sequence.ids.insert(sequence.ids.begin(), id);
  sequence.special.insert(sequence.special.begin(), 1);
  if (!sequence.token_type_ids.empty()) sequence.token_type_ids.insert(sequence.token_type_ids.begin(), 0);
  if (!sequence.offsets.empty()) sequence.offsets.insert(sequence.offsets.begin(), TextRange{});
  if (!sequence.words.empty()) sequence.words.insert(sequence.words.begin(), std::nullopt);
  for (Sequence::SharedToken& shared : sequence.shared_tokens) ++shared.token;
}

void truncate_ids(Batch& batch, std::size_t most) {
  for (Sequence& sequence : batch.sequences) {
    if (sequence.ids.size() <= most) continue;
    sequence.truncated = sequence.ids.size() - most;
    sequence.ids.resize(most);
    if (!sequence.token_type_ids.empty()) sequence.token_type_ids.resize(most);
    if (!sequence.key_visible.empty()) sequence.key_visible.resize(most);
  }
}

namespace {

void name_tokens(Sequence& sequence, const Vocabulary& vocabulary) {
  sequence.special.resize(sequence.ids.size(), 0);  // what a tokenizer added is marked already
  for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
    const std::int64_t id = sequence.ids[i];
    if (vocabulary.is_special(id)) sequence.special[i] = 1;
    sequence.separator.push_back(vocabulary.is_separator(id) ? 1 : 0);
    if (vocabulary.empty()) continue;
    const auto token = vocabulary.token(id);
    sequence.tokens.push_back(token ? std::string(*token) : fmt::format("#{}", id));
  }
}

}  // namespace

void finish_batch(Batch& batch, const Vocabulary& vocabulary) {
  InputIds ids;
  for (Sequence& sequence : batch.sequences) {
    sequence.id = ids.next(sequence.id);
    if (sequence.queries() == 0) {
      fail(Status::bad_input, "input \"{}\": an empty sequence; need at least one token",
           escaped(sequence.id));
    }
    if (sequence.ids.empty()) continue;
    name_tokens(sequence, vocabulary);
    if (!sequence.target) continue;
    sequence.target->id = sequence.id;
    name_tokens(*sequence.target, vocabulary);
  }
}

}  // namespace attnctl
