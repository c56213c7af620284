#include "study/corpus.hpp"

#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "forward/run.hpp"

namespace attnctl::study {
namespace {

/// Returns the tensors of `original`, which must outlive the result. The values of each floating-point matrix
/// are shuffled at its first use.
std::unique_ptr<checkpoint::Checkpoint> shuffled_checkpoint(checkpoint::Checkpoint& original,
                                                            std::uint64_t seed) {
  auto weights = std::make_unique<checkpoint::Checkpoint>();
  const MappedFile& memory = weights->map("shuffled weights", std::span<const std::byte>());
  for (std::size_t index = 0; index < original.tensors().size(); ++index) {
    const auto load = [&original, seed, index](std::vector<std::byte>& copy) -> std::span<const std::byte> {
      const checkpoint::TensorView view = original.tensor(index);
      copy.assign(view.bytes.begin(), view.bytes.end());
      if (view.shape.size() < 2 || !is_floating(view.dtype)) return copy;
      Random random(seed, index);
      const std::size_t size = size_of(view.dtype);
      shuffle(copy.size() / size, random, [&](std::size_t i, std::size_t j) {
        std::byte* const value = copy.data() + i * size;
        std::swap_ranges(value, value + size, copy.data() + j * size);
      });
      return copy;
    };
    weights->add(memory, original.tensors()[index], {}, 0, load);
  }
  return weights;
}

constexpr std::size_t kMaxFrequencyFile = std::size_t{1} << 30;  // bytes
constexpr std::size_t kProbeLength = 32;
constexpr std::size_t kMaxProbes = 16;  // largest number of sequences in a probe block

/// Cuts a sequence into windows of up to `length` tokens. Each window starts `stride` text tokens after the
/// previous window, and contains the special tokens that the tokenizer added at both ends.
std::vector<input::Sequence> windows_of(const input::Sequence& sequence, std::size_t length,
                                        std::size_t stride) {
  const std::size_t n = sequence.ids.size();
  if (sequence.text_pair)
    fail(Status::bad_input, "{}: --stride does not support pairs of texts", escaped(sequence.id));
  if (sequence.target)
    fail(Status::bad_input, "{}: --stride does not support inputs with a target", escaped(sequence.id));
  const auto added = [&](std::size_t place) { return sequence.text && sequence.special[place] != 0; };
  std::size_t before = 0, end = n;  // the tokens of the text are [before, end)
  while (before < n && added(before)) ++before;
  while (end > before && added(end - 1)) --end;
  const std::size_t added_tokens = before + (n - end);
  if (added_tokens >= length) {
    fail(Status::bad_input,
         "{}: windows of {} have no space for text, because each window has {}; give a larger --max-length",
         escaped(sequence.id), counted(length, "token"), counted(added_tokens, "special token"));
  }
  if (stride > length - added_tokens) {
    fail(Status::bad_input, "{}: --stride: got {}, need at most {}, the number of text tokens in a window",
         escaped(sequence.id), stride, length - added_tokens);
  }
  std::vector<input::Sequence> parts;
  for (std::size_t first = before;; first += stride) {
    const std::size_t last = std::min(first + length - added_tokens, end);
    input::Sequence& part = parts.emplace_back(sequence);
    const auto cut = [&](auto& values) {
      if (values.size() != n) return;  // the vector is empty
      const auto at = [&](std::size_t index) { return values.begin() + static_cast<std::ptrdiff_t>(index); };
      values.erase(at(last), at(end));
      values.erase(at(before), at(first));
    };
    const auto cut_all = [&](auto&... values) { (cut(values), ...); };
    cut_all(part.ids, part.tokens, part.token_type_ids, part.special, part.separator, part.offsets,
            part.words, part.key_visible);
    std::erase_if(part.shared_tokens,
                  [&](const auto& shared) { return shared.token < first || shared.token >= last; });
    for (input::Sequence::SharedToken& shared : part.shared_tokens) shared.token -= first - before;
    if (last == end) return parts;
  }
}

}  // namespace

std::vector<std::size_t> ordinary_tokens(const input::Sequence& sequence) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
    const bool special = !sequence.special.empty() && sequence.special[i] != 0;
    const bool hidden = !sequence.key_visible.empty() && sequence.key_visible[i] == 0;
    if (!special && !hidden) positions.push_back(i);
  }
  return positions;
}

std::string CorpusCounts::text() const {
  return fmt::format("{}{}, {}", counted(sentences, "sentence"),
                     windows == sentences ? "" : fmt::format(" ({} windows)", windows),
                     counted(tokens, "token"));
}

void TokenFrequencies::add(const input::Sequence& sequence) {
  for (const std::size_t i : ordinary_tokens(sequence)) set(sequence.ids[i], of(sequence.ids[i]) + 1);
}

std::vector<std::size_t> rarest_tokens(const input::Sequence& sequence, const TokenFrequencies& frequencies) {
  std::vector<std::size_t> places = ordinary_tokens(sequence);
  const auto count = [&](std::size_t place) { return frequencies.of(sequence.ids[place]); };
  const auto rarest = std::ranges::min_element(places, {}, count);
  const std::uint64_t least = rarest == places.end() ? 0 : count(*rarest);
  std::erase_if(places, [&](std::size_t place) { return count(place) > least; });
  return places;
}

TokenFrequencies read_frequencies(const std::filesystem::path& path, const tokenizer::Vocabulary& vocabulary,
                                  std::size_t ids) {
  const std::string file = read_file(path, kMaxFrequencyFile);
  const std::string name = escaped(path.string());
  std::string_view text = file;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  TokenFrequencies frequencies;
  std::map<std::size_t, std::size_t> lines_of_ids;  // first line of each id
  bool by_id = false;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (number == 1 && (line == "token\tcount" || line == "id\tcount")) {
      by_id = line == "id\tcount";
      continue;
    }
    const auto bad = [&](std::string_view found, std::string_view need) {
      fail(Status::bad_input, "{}: line {}: got {}, {}", name, number, in_quotes(found), need);
    };
    const std::size_t tab = line.rfind('\t');
    const auto count = tab == std::string_view::npos ? std::nullopt : parse_number(line.substr(tab + 1));
    if (!count)
      bad(line, fmt::format("need {}<TAB>COUNT with a whole number from 0", by_id ? "ID" : "TOKEN"));
    const std::string_view token = line.substr(0, tab);
    // An unknown token gets a number that is not less than `ids`.
    const std::size_t id = by_id ? parse_number(token).value_or(ids)
                                 : static_cast<std::size_t>(vocabulary.id(token).value_or(-1));
    if (id >= ids) {
      bad(token, by_id ? fmt::format("need an id of the model, 0 to {}", ids - 1)
                       : "need a token of the model, written as by attnctl tokenize; for ids, the first line "
                         "must be id<TAB>count");
    }
    const std::size_t first = lines_of_ids.try_emplace(id, number).first->second;
    if (first != number)
      bad(token, fmt::format("need one count per token; line {} has the same token", first));
    frequencies.set(static_cast<std::int64_t>(id), *count);
  }
  if (lines_of_ids.empty())
    fail(Status::bad_input, "{}: the file has no counts; need lines TOKEN<TAB>COUNT", name);
  return frequencies;
}

input::Batch shuffled_tokens(const CorpusBlock& block, std::uint64_t seed, std::uint64_t repetition) {
  input::Batch batch = block.batch;
  const std::uint64_t block_seed = Random(Random(seed, repetition).next(), block.number).next();
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    input::Sequence& sequence = batch.sequences[s];
    const std::vector<std::size_t> positions = ordinary_tokens(sequence);
    Random random(block_seed, s);
    shuffle(positions.size(), random, [&](std::size_t i, std::size_t j) {
      std::swap(sequence.ids[positions[i]], sequence.ids[positions[j]]);
    });
  }
  return batch;
}

std::vector<model::Model> random_twins(const model::Model& model, std::size_t count, std::uint64_t seed,
                                       Warnings& warnings) {
  std::vector<model::Model> twins;
  const checkpoint::ModelSource& of = model.source();
  for (std::size_t i = 0; i < count; ++i) {
    checkpoint::ModelSource source{of.given,       of.directory, of.config_path,
                                   of.config_text, of.config,    shuffled_checkpoint(*of.weights, seed + i)};
    twins.push_back(model::Model::bind(std::move(source), warnings));
  }
  return twins;
}

std::vector<ProbeSequence> probe_sequences(const ProbePlan& plan, const std::vector<std::int64_t>& prefix,
                                           std::size_t ids, std::size_t limit,
                                           const tokenizer::Vocabulary& vocabulary) {
  if (plan.sequences == 0 || limit <= prefix.size()) return {};
  std::vector<std::int64_t> usable;  // of tokens that are not special, not empty and not in the prefix
  for (std::int64_t id = 0; id < static_cast<std::int64_t>(ids); ++id) {
    if (vocabulary.is_special(id) || std::ranges::find(prefix, id) != prefix.end()) continue;
    if (vocabulary.empty() || !vocabulary.token(id).value_or("").empty()) usable.push_back(id);
  }
  const std::size_t length = std::min({kProbeLength, usable.size() / 4, (limit - prefix.size()) / 2});
  if (length < 4) return {};
  std::vector<ProbeSequence> probes;
  for (std::size_t i = 0; i < plan.sequences; ++i) {
    Random random(plan.seed, i);
    std::vector<std::int64_t> drawn;  // distinct ids
    std::set<std::int64_t> seen;
    while (drawn.size() < 2 * length) {
      const std::int64_t id = usable[random.next() % usable.size()];
      if (seen.insert(id).second) drawn.push_back(id);
    }
    const auto copy = std::span(drawn).first(length);
    for (const bool repeated : {true, false}) {
      ProbeSequence& probe = probes.emplace_back();
      probe.marks = {.first = prefix.size(), .length = length, .repeated = repeated};
      probe.sequence.id = (repeated ? "probe " : "control ") + std::to_string(i);
      probe.sequence.ids = prefix;
      for (const auto& half : {repeated ? copy : std::span(drawn).last(length), copy})
        probe.sequence.ids.insert(probe.sequence.ids.end(), half.begin(), half.end());
    }
  }
  return probes;
}

/// Throws Error(bad_input) if the sentence is bad; see next().
std::optional<CorpusBlocks::CheckedSentence> CorpusBlocks::next_sentence() {
  while (true) {
    if (!stream_) {
      if (next_file_ == options_.files.size()) return std::nullopt;
      const CorpusFile& file = options_.files[next_file_++];
      stream_.emplace(file.path, file.format, encoder_, vocabulary_);
    }
    auto sentence = stream_->next();
    if (sentence) {
      sentence->sequence.id = sentence->where;
      const bool untyped = model_.config().embedding.token_types == 0;
      if (untyped && sentence->sequence.text) sentence->sequence.token_type_ids.clear();
      const std::size_t n = sentence->sequence.queries();
      if (options_.targets && !sentence->sequence.target)
        fail(Status::bad_input,
             "{}: has no target, whose tokens the decoder predicts; give JSON objects with \"target\" (a "
             "text) or \"target_ids\"",
             sentence->where);
      if (n > limit_ && !options_.stride) {
        fail(Status::bad_input, "{}: got {}, the limit is {}; --stride cuts it into windows{}",
             sentence->where, counted(n, "token"), limit_, options_.skip_bad ? "" : ", --skip-bad skips it");
      }
      input::Batch windows;
      windows.sequences = n > limit_ ? windows_of(sentence->sequence, limit_, *options_.stride)
                                     : std::vector{sentence->sequence};
      forward::check_batch(model_, windows);
      return CheckedSentence{std::move(*sentence), std::move(windows.sequences)};
    }
    finished_bytes_ += stream_->position();
    stream_.reset();
  }
}

void CorpusBlocks::add(CheckedSentence checked, CorpusBlock& block) {
  const input::Sequence& whole = checked.sentence.sequence;
  for (std::size_t i = 0; !any_ && i < whole.ids.size() && whole.special[i] != 0; ++i)
    prefix_.push_back(whole.ids[i]);
  any_ = true;
  ++block.counts.sentences;
  block.counts.windows += checked.windows.size();
  block.counts.words += whole.word_texts.size();
  frequencies_.add(whole);
  for (std::size_t i = 0; i < checked.windows.size(); ++i) {
    input::Sequence& window = checked.windows[i];
    if (checked.windows.size() > 1) window.id = fmt::format("{} window {}", checked.sentence.where, i);
    block.counts.tokens += window.queries();
    tokens_hash_ = content_hash(std::as_bytes(std::span(window.ids)), tokens_hash_);
    if (window.target)
      tokens_hash_ = content_hash(std::as_bytes(std::span(window.target->ids)), tokens_hash_);
    block.batch.sequences.push_back(std::move(window));
    block.annotations.push_back(checked.sentence.annotation);
  }
}

std::optional<CorpusBlock> CorpusBlocks::next_of_probe() {
  if (!probe_) {
    const std::size_t ids = model_.config().embedding.vocabulary;
    probe_ = probe_sequences(options_.probe, prefix_, ids, limit_, vocabulary_);
  }
  CorpusBlock block;
  std::size_t tokens = 0;
  for (; next_probe_ < probe_->size() && block.probes.size() < kMaxProbes; ++next_probe_) {
    ProbeSequence& probe = (*probe_)[next_probe_];
    tokens += probe.sequence.queries();
    if (!block.probes.empty() && tokens > std::max(options_.batch_tokens, kFewestProbeTokens)) break;
    block.probes.push_back(probe.marks);
    block.batch.sequences.push_back(std::move(probe.sequence));
  }
  if (block.probes.empty()) return std::nullopt;
  input::finish_batch(block.batch, vocabulary_);
  block.annotations.resize(block.probes.size());
  return block;
}

std::optional<CorpusBlock> CorpusBlocks::next_of_corpus() {
  CorpusBlock block;
  std::uint64_t rows = 0;  // of the sentences or, if longer, of their targets
  while (true) {
    std::optional<CheckedSentence> sentence;
    try {
      sentence = pending_ ? std::exchange(pending_, std::nullopt) : next_sentence();
    } catch (const Error& error) {
      const bool skippable = error.status() == Status::bad_input && stream_ && stream_->usable();
      if (!options_.skip_bad || !skippable) throw;
      ++block.counts.skipped;
      block.skipped.emplace_back(error.what());
      continue;
    }
    if (!sentence) break;
    const input::Sequence& whole = sentence->sentence.sequence;
    const std::size_t longest = std::max(whole.queries(), whole.predicted().queries());
    if (block.counts.sentences > 0 && rows + longest > options_.batch_tokens) {
      pending_ = std::move(sentence);
      break;
    }
    const std::uint64_t before = block.counts.tokens;
    add(std::move(*sentence), block);
    rows += std::max<std::uint64_t>(block.counts.tokens - before, longest);
  }
  if (block.counts.sentences > 0) return block;
  if (!any_) {
    const std::string given = options_.files.front().path.string();
    const std::string file = given == "-" ? "standard input" : escaped(given);
    if (block.skipped.empty()) fail(Status::bad_input, "{}: the corpus has no sentences", file);
    fail(Status::bad_input, "{}: all sentences of the corpus are bad; the first error: {}", file,
         block.skipped.front());
  }
  return block.skipped.empty() ? std::nullopt : std::optional(std::move(block));
}

}  // namespace attnctl::study
