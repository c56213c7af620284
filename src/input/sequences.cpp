#include "input/sequences.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "input/json_inputs.hpp"

namespace attnctl {
namespace {

void name_tokens(Sequence& sequence, const Vocabulary& vocabulary) {
  sequence.special.resize(sequence.ids.size(), 0);  // the tokenizer already marked its own
  for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
    const std::int64_t id = sequence.ids[i];
    if (vocabulary.is_special(id)) sequence.special[i] = 1;
    sequence.separator.push_back(vocabulary.is_separator(id) ? 1 : 0);
    if (vocabulary.empty()) continue;
    const auto token = vocabulary.token(id);
    sequence.tokens.push_back(token ? std::string(*token) : fmt::format("#{}", id));
  }
}

/// Copies the values of a patch to out [channels, patch_height, patch_width].
void cut_patch(std::span<const float> pixels, const PatchGrid& grid, std::size_t row, std::size_t column,
               std::span<float> out) {
  for (std::size_t line = 0; line < grid.channels * grid.patch_height; ++line) {
    const std::size_t channel = line / grid.patch_height;
    const std::size_t y = row * grid.patch_height + line % grid.patch_height;
    const std::size_t begin = (channel * grid.height + y) * grid.width + column * grid.patch_width;
    std::ranges::copy(pixels.subspan(begin, grid.patch_width),
                      out.subspan(line * grid.patch_width, grid.patch_width).begin());
  }
}

}  // namespace

std::vector<std::int64_t> parse_ids(std::string_view list, std::string_view option) {
  std::vector<std::int64_t> ids;
  for (std::string_view word : split(list, ',')) {
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    std::int64_t id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || stop != word.data() + word.size() || id < 0) {
      fail(Status::bad_input, "{}: got \"{}\" at position {}; need integers from 0, separated by commas",
           option, escaped(word), ids.size());
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

InputIds::Key InputIds::key_of(std::string_view id) {
  constexpr std::uint64_t kOffset = 14695981039346656037U;  // FNV-1a
  constexpr std::uint64_t kPrime = 1099511628211U;
  Key key{std::hash<std::string_view>()(id), kOffset};
  for (const char c : id) key.b = (key.b ^ static_cast<unsigned char>(c)) * kPrime;
  return key;
}

std::string InputIds::next(std::string_view own) {
  std::string number = std::to_string(count_);
  if (own.empty() && count_ == numbered_) {
    ++numbered_;
    ++count_;
    return number;
  }
  std::string id = own.empty() ? std::move(number) : std::string(own);
  const auto as_number = parse_number(id);
  const bool is_earlier_number = as_number && *as_number < numbered_ && std::to_string(*as_number) == id;
  if (is_earlier_number || !seen_.insert(key_of(id)).second) {
    fail(Status::bad_input, "input {}: the id {} occurs twice; every input needs a unique id", count_,
         in_quotes(id));
  }
  ++count_;
  return id;
}

Sequence make_pixel_sequence(std::span<const float> pixels, const PatchGrid& grid) {
  Sequence sequence;
  sequence.patches = OwnedMatrix<float>(grid.patches(), grid.patch_size());
  sequence.tokens.emplace_back("[CLS]");
  sequence.special.assign(grid.patches() + 1, 0);
  sequence.special.front() = 1;
  for (std::size_t patch = 0; patch < grid.patches(); ++patch) {
    const std::size_t row = patch / grid.columns();
    const std::size_t column = patch % grid.columns();
    cut_patch(pixels, grid, row, column, sequence.patches.view().row(patch));
    sequence.tokens.push_back(fmt::format("patch {},{}", row, column));
  }
  return sequence;
}

}  // namespace attnctl
