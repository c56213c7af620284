#include "input/sequences.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/text.hpp"
#include "input/words.hpp"

namespace attnctl::input {
namespace {

void name_tokens(Sequence& sequence, const tokenizer::Vocabulary& vocabulary) {
  // The tokenizer has already marked the tokens that it added.
  sequence.special.resize(sequence.ids.size(), 0);
  for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
    const std::int64_t id = sequence.ids[i];
    if (vocabulary.is_special(id)) sequence.special[i] = 1;
    sequence.separator.push_back(vocabulary.is_separator(id) ? 1 : 0);
    if (vocabulary.empty()) continue;
    const auto token = vocabulary.token(id);
    sequence.tokens.push_back(token ? std::string(*token) : fmt::format("#{}", id));
  }
}

/// Appends the words of text number `text` (0, or 1 for the second text of a pair) to the words of the
/// sequence, and assigns the tokens of this text to them.
void add_words(Sequence& sequence, const tokenizer::Encoding& encoding, std::uint8_t text,
               std::vector<TextWord> words) {
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

void add_target(const JsonInput& input, TextEncoder& encoder, Sequence& sequence) {
  if (input.contains("target")) {
    sequence.target = std::make_shared<Sequence>(encoder.encode_target(input.target_text()));
  } else if (input.contains("target_ids")) {
    sequence.target = std::make_shared<Sequence>();
    sequence.target->ids = input.target_ids();
  }
}

}  // namespace

std::vector<std::int64_t> parse_ids(std::string_view list, std::string_view option) {
  std::vector<std::int64_t> ids;
  for (std::string_view word : split(list, ',')) {
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    const auto id = parse_number(word);
    if (!id || *id > std::numeric_limits<std::int64_t>::max()) {
      refuse(option, "id {} of the list is \"{}\"; need integers from 0, separated by commas", ids.size() + 1,
             escaped(word));
    }
    ids.push_back(static_cast<std::int64_t>(*id));
  }
  return ids;
}

std::uint64_t read_sequences(const TextBlock& file, InputFormat format,
                             const tokenizer::Vocabulary& vocabulary, TextEncoder& encoder, Batch& batch) {
  if (format == InputFormat::txt || format == InputFormat::conllu) {
    std::vector<TextInput> inputs;
    const std::uint64_t blank = read_text_inputs(file.text, format, file.place, inputs);
    for (TextInput& input : inputs) batch.sequences.push_back(encoder.encode(std::move(input)));
    return blank;
  }
  for_each_json_input(file.text, format, file.place, [&](const JsonInput& input) {
    batch.sequences.push_back(input.contains("text") ? encoder.encode(input.text())
                                                     : input.sequence(vocabulary));
    add_target(input, encoder, batch.sequences.back());
  });
  return 0;
}

void put_first(std::int64_t id, Sequence& sequence) {
  sequence.ids.insert(sequence.ids.begin(), id);
  sequence.special.insert(sequence.special.begin(), 1);
  sequence.token_type_ids.insert(sequence.token_type_ids.begin(), 0);
  sequence.offsets.insert(sequence.offsets.begin(), tokenizer::TextRange{});
  sequence.words.insert(sequence.words.begin(), std::nullopt);
  for (Sequence::SharedToken& shared : sequence.shared_tokens) ++shared.token;
}

std::size_t last_of_text(const Sequence& sequence) {
  std::size_t last = sequence.queries() - 1;
  const auto appended = [&](std::size_t token) {
    const tokenizer::TextRange range = sequence.offsets[token];
    return sequence.special[token] != 0 && range.begin == range.end;
  };
  while (last > 0 && !sequence.offsets.empty() && appended(last)) --last;
  return last;
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

void finish_batch(Batch& batch, const tokenizer::Vocabulary& vocabulary) {
  InputIds ids;
  for (Sequence& sequence : batch.sequences) {
    sequence.id = ids.next(sequence.id);
    if (sequence.queries() == 0) {
      fail(Status::bad_input, "input \"{}\": got an empty sequence, need at least one token",
           escaped(sequence.id));
    }
    if (sequence.ids.empty()) continue;
    name_tokens(sequence, vocabulary);
    if (!sequence.target) continue;
    sequence.target->id = sequence.id;
    name_tokens(*sequence.target, vocabulary);
  }
}

std::string InputIds::next(std::string_view own) {
  std::string id = own.empty() ? std::to_string(count_) : std::string(own);
  if (own.empty() && count_ == numbered_) {
    ++numbered_;
    ++count_;
    return id;
  }
  const auto as_number = parse_number(id);
  const bool is_earlier_number = as_number && *as_number < numbered_ && std::to_string(*as_number) == id;
  if (is_earlier_number || !seen_.insert({content_hash(id), content_hash(id, 1)}).second) {
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
    const std::span<float> values = sequence.patches.view().row(patch);  // [channels, patch height, width]
    for (std::size_t line = 0; line < grid.channels * grid.patch_height; ++line) {
      const std::size_t y = row * grid.patch_height + line % grid.patch_height;
      const std::size_t channel = line / grid.patch_height;
      const std::size_t begin = (channel * grid.height + y) * grid.width + column * grid.patch_width;
      std::ranges::copy(pixels.subspan(begin, grid.patch_width),
                        values.subspan(line * grid.patch_width).begin());
    }
    sequence.tokens.push_back(fmt::format("patch {},{}", row, column));
  }
  return sequence;
}

std::size_t truncate(tokenizer::Encoding& encoding, std::size_t most) {
  const std::size_t n = encoding.size();
  if (n <= most) return 0;
  std::array<std::size_t, 2> counts = {0, 0};  // number of tokens of each text
  for (std::size_t i = 0; i < n; ++i) {
    if (encoding.special[i] == 0) ++counts[encoding.sequence[i]];
  }
  const std::size_t added = n - counts[0] - counts[1];
  if (added >= most) {
    fail(Status::bad_input,
         "--truncate: no token of the text is left, because the model has {} and the tokenizer adds {}; use "
         "--ids, or a model with at least {}",
         counted(most, "position"), counted(added, "special token"), counted(added + 1, "position"));
  }
  // Shortens the longer text until both texts have the same length, then both alternately.
  const std::size_t shorter = std::min({counts[0], counts[1], (most - added) / 2});
  std::array<std::size_t, 2> left = {shorter, most - added - shorter};
  if (counts[0] > counts[1]) std::swap(left[0], left[1]);
  std::vector<std::uint8_t> stays(n, 1);
  for (std::size_t i = 0; i < n; ++i) {
    if (encoding.special[i] != 0) continue;
    std::size_t& capacity = left[encoding.sequence[i]];
    stays[i] = capacity > 0 ? 1 : 0;
    if (capacity > 0) --capacity;
  }
  tokenizer::Encoding::for_each_list([&](auto member) {
    auto& list = encoding.*member;
    std::size_t next = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (stays[i] != 0) list[next++] = list[i];
    }
    list.resize(next);
  });
  return n - encoding.size();
}

Sequence make_text_sequence(TextInput input, const tokenizer::Encoding& encoding) {
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

void TextChecks::add(std::string_view text, const tokenizer::Encoding& encoding,
                     const tokenizer::Vocabulary& vocabulary) {
  const auto is_unknown = [&](std::int64_t id) { return vocabulary.is_unknown(id); };
  const bool is_conllu = text.starts_with("1\t") && std::ranges::count(text, '\t') == 9;
  add({.tokens = static_cast<std::uint64_t>(std::ranges::count(encoding.special, 0)),
       .unknown = static_cast<std::uint64_t>(std::ranges::count_if(encoding.ids, is_unknown)),
       .conllu = is_conllu ? 1U : 0U});
}

void TextChecks::add(const TextChecks& other) {
  tokens += other.tokens;
  unknown += other.unknown;
  conllu += other.conllu;
}

void TextChecks::warn(Warnings& warnings) const {
  if (conllu > 0)
    warnings.add("conllu_as_text",
                 fmt::format("{} CoNLL-U but {} read as text; give --input-format conllu, or rename the file "
                             "to .conllu",
                             counted(conllu, "sentence looks like", "sentences look like"),
                             conllu == 1 ? "is" : "are"));
  else if (unknown * 5 > tokens)
    warnings.add(
        "many_unknown",
        fmt::format("{} of {} {} unknown or bytes of unknown characters; the texts may not be in the "
                    "language of the model",
                    unknown, counted(tokens, "token"), unknown == 1 ? "is" : "are"));
}

Sequence TextEncoder::encode(TextInput input) {
  if (!tokenizer_) {
    if (origin_.empty()) tokenizer::refuse_text(model_);
    tokenizer_.emplace(tokenizer::Tokenizer::open(origin_));
    state_ = tokenizer_->make_state();
  }
  std::optional<std::string_view> pair;
  if (input.pair) pair = *input.pair;
  tokenizer_->encode(input.text, pair, *state_, encoding_);
  const std::size_t truncated = most ? truncate(encoding_, *most) : 0;
  checks.add(input.text, encoding_, tokenizer_->vocabulary());
  Sequence sequence = make_text_sequence(std::move(input), encoding_);
  sequence.truncated = truncated;
  return sequence;
}

Sequence TextEncoder::encode_target(std::string text) {
  if (!start_token_)
    fail(Status::bad_input,
         "{}: the text of a target needs the start token of the decoder (decoder_start_token_id in the "
         "configuration of an encoder-decoder model), which is missing; give the ids of the target instead",
         escaped(model_));
  Sequence target = encode({.id = {}, .text = std::move(text), .pair = std::nullopt, .words = std::nullopt});
  put_first(*start_token_, target);
  target.token_type_ids.clear();  // decoders have no token types
  return target;
}

SentenceStream::SentenceStream(const std::filesystem::path& path, InputFormat format, TextEncoder& encoder,
                               const tokenizer::Vocabulary& vocabulary)
    : format_(format), encoder_(&encoder), vocabulary_(&vocabulary) {
  if (format != InputFormat::json) {
    blocks_.emplace(path, format);
    return;
  }
  const TextBlock whole = read_whole(path);
  require_utf8(whole.text, whole.place);
  document_ = formats::parse_json(whole.place.file, whole.text);
  block_.place.file = whole.place.file;
  items_ = document_->is_array() ? document_->size() : 1;
  if (path != "-") bytes_ = size_of_file(path);
}

/// Returns the next line of the file; of a CoNLL-U file, the lines up to the next blank line. Skips blank
/// lines. Returns nullopt at the end of the file.
std::optional<std::string> SentenceStream::take_lines(TextPlace& place) {
  while (true) {
    if (block_.text.empty()) {
      usable_ = false;  // remains false if next() throws
      if (!blocks_->next(block_)) return std::nullopt;
      usable_ = true;
    }
    std::string_view rest = block_.text;
    bool blank = true;
    while (!rest.empty() && !is_blank(take_line(rest))) {
      blank = false;
      if (format_ != InputFormat::conllu) break;
    }
    place = block_.place;
    std::string lines = block_.text.substr(0, block_.text.size() - rest.size());
    block_.text.erase(0, lines.size());
    block_.place.offset += lines.size();
    block_.place.line += static_cast<std::uint64_t>(std::ranges::count(lines, '\n'));
    if (!blank) return lines;
  }
}

/// Returns the next sentence of a .conllu, .txt or .jsonl file; nullopt at the end of the file. The sequence
/// is empty if the lines contain no sentence.
std::optional<CorpusSentence> SentenceStream::next_lines() {
  TextPlace place;
  const std::optional<std::string> lines = take_lines(place);
  if (!lines) return std::nullopt;
  CorpusSentence sentence;
  sentence.where = fmt::format("{}: line {}", place.file, place.line);
  if (format_ == InputFormat::conllu) {
    std::vector<ConlluSentence> read;
    read_conllu(*lines, place, read);
    if (read.empty()) return sentence;
    sentence.where = fmt::format("{}: line {}", place.file, read.front().line);
    sentence.sequence = encoder_->encode(text_of(read.front()));
    sentence.annotation = std::make_shared<const ConlluSentence>(std::move(read.front()));
  } else if (format_ == InputFormat::txt) {
    std::vector<TextInput> read;
    read_text_inputs(*lines, format_, place, read);
    if (!read.empty()) sentence.sequence = encoder_->encode(std::move(read.front()));
  } else {
    for_each_json_input(*lines, format_, place,
                        [&](const JsonInput& input) { read_object(input, sentence); });
  }
  return sentence;
}

std::optional<CorpusSentence> SentenceStream::next_item() {
  if (item_ >= items_) return std::nullopt;
  CorpusSentence sentence;
  sentence.where = block_.place.file;
  tokenizer::PartConfig object(block_.place.file, "", *document_);
  if (document_->is_array()) {
    object = {block_.place.file, fmt::format("/{}", item_), (*document_)[item_]};
    sentence.where = object.place();
  }
  ++item_;
  read_object(JsonInput(object), sentence);
  return sentence;
}

void SentenceStream::read_object(const JsonInput& input, CorpusSentence& sentence) const {
  if (!input.contains("text")) {
    sentence.sequence = input.sequence(*vocabulary_);
  } else {
    TextInput text = input.text();
    if (input.contains("mentions"))
      sentence.annotation = std::make_shared<const ConlluSentence>(mentions_of(input, text));
    sentence.sequence = encoder_->encode(std::move(text));
  }
  add_target(input, *encoder_, sentence.sequence);
}

std::optional<CorpusSentence> SentenceStream::next() {
  std::optional<CorpusSentence> sentence;
  const bool is_text = format_ == InputFormat::txt || format_ == InputFormat::conllu;
  do {
    sentence = document_ ? next_item() : next_lines();
    if (!sentence) return std::nullopt;
    // Skips groups of comments of a CoNLL-U file, and lines of a text that are all white space.
  } while (is_text && sentence->sequence.ids.empty() && !sentence->sequence.text);
  if (sentence->sequence.queries() == 0)
    refuse(sentence->where, "got an empty sequence, need at least one token");
  Batch batch;
  batch.sequences.push_back(std::move(sentence->sequence));
  finish_batch(batch, *vocabulary_);
  sentence->sequence = std::move(batch.sequences.front());
  return sentence;
}

}  // namespace attnctl::input
