#include "input/text_encoder.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "input/words.hpp"

namespace attnctl {
namespace {

/// The number of tokens that each text keeps.
using Kept = std::array<std::size_t, 2>;

/// Shortens the longer text until both have one length, then both in turn.
Kept longest_first(const Kept& counts, std::size_t capacity) {
  const std::size_t shorter = std::min(counts[0], counts[1]);
  Kept kept = counts;
  std::size_t& longer_kept = counts[0] > counts[1] ? kept[0] : kept[1];
  std::size_t& shorter_kept = counts[0] > counts[1] ? kept[1] : kept[0];
  if (2 * shorter <= capacity) {
    longer_kept = capacity - shorter;
  } else {
    shorter_kept = capacity / 2;
    longer_kept = capacity - shorter_kept;
  }
  return kept;
}

template <typename T>
void keep(std::vector<T>& values, const std::vector<std::uint8_t>& stays) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (stays[i] != 0) values[next++] = values[i];
  }
  values.resize(next);
}

/// Appends the words of one text to those of the sequence.
void add_words(Sequence& sequence, const Encoding& encoding, std::uint8_t text, std::vector<TextWord> words) {
  const std::size_t before = sequence.word_texts.size();
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    if (encoding.special[i] != 0 || encoding.sequence[i] != text) continue;
    const auto [first, last] = words_in(words, encoding.offsets[i]);
    if (first < last) sequence.words[i] = before + first;
    for (std::size_t word = first + 1; word < last; ++word)
      sequence.shared_tokens.push_back({i, before + word});
  }
  for (TextWord& word : words) {
    sequence.word_texts.push_back(std::move(word.form));
    sequence.word_ranges.push_back(word.range);
  }
}

}  // namespace

std::size_t truncate(Encoding& encoding, std::size_t most) {
  const std::size_t n = encoding.size();
  if (n <= most) return 0;
  Kept counts = {0, 0};
  for (std::size_t i = 0; i < n; ++i) {
    if (encoding.special[i] == 0) ++counts[encoding.sequence[i]];
  }
  const std::size_t added = n - counts[0] - counts[1];
  if (added >= most) {
    fail(Status::bad_input, "--truncate: {} positions leave no room for text: the tokenizer adds {} tokens",
         most, added);
  }
  Kept left = longest_first(counts, most - added);
  std::vector<std::uint8_t> stays(n, 1);
  for (std::size_t i = 0; i < n; ++i) {
    if (encoding.special[i] != 0) continue;
    std::size_t& capacity = left[encoding.sequence[i]];
    stays[i] = capacity > 0 ? 1 : 0;
    if (capacity > 0) --capacity;
  }
  keep(encoding.ids, stays);
  keep(encoding.type_ids, stays);
  keep(encoding.offsets, stays);
  keep(encoding.words, stays);
  keep(encoding.sequence, stays);
  keep(encoding.special, stays);
  return n - encoding.size();
}

Sequence make_text_sequence(TextInput input, const Encoding& encoding) {
  Sequence sequence;
  sequence.id = std::move(input.id);
  sequence.ids = encoding.ids;
  sequence.token_type_ids = encoding.type_ids;
  sequence.special = encoding.special;
  sequence.offsets = encoding.offsets;
  sequence.words.resize(encoding.size());
  add_words(sequence, encoding, 0, input.words ? std::move(*input.words) : white_space_words(input.text));
  if (input.pair) {
    for (std::size_t i = 0; i < encoding.size(); ++i) {
      sequence.text_index.push_back(encoding.special[i] != 0 ? std::nullopt
                                                             : std::optional(encoding.sequence[i]));
    }
    add_words(sequence, encoding, 1, white_space_words(*input.pair));
  }
  sequence.text = std::move(input.text);
  sequence.text_pair = std::move(input.pair);
  return sequence;
}

TextEncoder::TextEncoder(TokenizerOrigin origin, std::string model)
    : origin_(std::move(origin)), model_(std::move(model)) {}

void TextEncoder::open() {
  if (tokenizer_) return;
  if (origin_.empty()) {
    fail(Status::bad_input, "{}: has no tokenizer for text; give --ids, or tokens by --input",
         escaped(model_));
  }
  tokenizer_.emplace(Tokenizer::open(origin_));
  state_ = tokenizer_->make_state();
}

Sequence TextEncoder::encode(TextInput input) {
  open();
  std::optional<std::string_view> pair;
  if (input.pair) pair = *input.pair;
  tokenizer_->encode(input.text, pair, *state_, encoding_);
  const std::size_t truncated = most_ ? truncate(encoding_, *most_) : 0;
  Sequence sequence = make_text_sequence(std::move(input), encoding_);
  sequence.truncated = truncated;
  return sequence;
}

}  // namespace attnctl
