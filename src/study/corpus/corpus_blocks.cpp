#include "study/corpus/corpus_blocks.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "forward/run.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kMaxProbes = 16;        // largest number of sequences of a probe block
constexpr std::size_t kMinProbeTokens = 256;  // tokens per probe block, if batch_tokens is smaller

/// A window: the text tokens [first, last), with the special tokens [0, before) and [end, n) at both ends.
struct Window {
  std::size_t before = 0, first = 0, last = 0, end = 0, n = 0;

  template <typename T>
  void cut(std::vector<T>& values) const {
    if (values.size() != n) return;  // the vector is empty
    std::vector<T> kept(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(before));
    const auto at = [&](std::size_t place) { return values.begin() + static_cast<std::ptrdiff_t>(place); };
    kept.insert(kept.end(), at(first), at(last));
    kept.insert(kept.end(), at(end), values.end());
    values = std::move(kept);
  }
};

Sequence cut(const Sequence& sequence, const Window& window) {
  Sequence part = sequence;
  window.cut(part.ids);
  window.cut(part.tokens);
  window.cut(part.token_type_ids);
  window.cut(part.special);
  window.cut(part.separator);
  window.cut(part.offsets);
  window.cut(part.words);
  window.cut(part.key_visible);
  part.shared_tokens.clear();
  for (Sequence::SharedToken shared : sequence.shared_tokens) {
    if (shared.token < window.first || shared.token >= window.last) continue;
    shared.token -= window.first - window.before;
    part.shared_tokens.push_back(shared);
  }
  return part;
}

}  // namespace

CorpusBlocks::CorpusBlocks(const CorpusOptions& options, const Model& model, const Vocabulary& vocabulary,
                           TextEncoder& encoder)
    : options_(options), model_(model), vocabulary_(vocabulary), encoder_(encoder) {
  constexpr std::size_t unbounded = std::numeric_limits<std::size_t>::max();
  limit_ = std::min(options.max_length.value_or(unbounded), model.config().max_positions.value_or(unbounded));
}

std::uint64_t CorpusBlocks::new_bytes() {
  const std::uint64_t read = finished_bytes_ + (stream_ ? stream_->position() : 0);
  return read - std::exchange(reported_bytes_, read);
}

/// Returns the next sentence of the open file, or of the next file.
std::optional<CorpusBlocks::Checked> CorpusBlocks::next_sentence() {
  while (true) {
    if (!stream_) {
      if (next_file_ == options_.files.size()) return std::nullopt;
      const CorpusFile& file = options_.files[next_file_++];
      stream_.emplace(file.path, file.format, encoder_, vocabulary_);
    }
    auto sentence = stream_->next();
    if (sentence) {
      const bool untyped = model_.config().embedding.token_types == 0;
      if (untyped && sentence->sequence.text) sentence->sequence.token_type_ids.clear();
      std::vector<Sequence> windows = checked_windows(*sentence);
      return Checked{std::move(*sentence), std::move(windows)};
    }
    finished_bytes_ += stream_->position();
    stream_.reset();
  }
}

/// Cuts a sentence into windows if it is too long. Throws Error(bad_input) if the model cannot take them.
std::vector<Sequence> CorpusBlocks::checked_windows(const CorpusSentence& sentence) const {
  const std::size_t n = sentence.sequence.queries();
  if (n > limit_ && !options_.stride) {
    fail(Status::bad_input,
         "{}: got {} tokens, the limit is {}; shorten the sentence, or cut it into windows with --stride",
         sentence.where, n, limit_);
  }
  Batch windows;
  windows.sequences =
      n > limit_ ? windows_of(sentence.sequence, limit_, *options_.stride) : std::vector{sentence.sequence};
  for (Sequence& window : windows.sequences) window.id = sentence.where;
  check_batch(model_, windows);
  return std::move(windows.sequences);
}

void CorpusBlocks::add(Checked checked, CorpusBlock& block) {
  const Sequence& whole = checked.sentence.sequence;
  for (std::size_t i = 0; !any_ && i < whole.ids.size() && whole.special[i] != 0; ++i)
    prefix_.push_back(whole.ids[i]);
  any_ = true;
  ++block.counts.sentences;
  block.counts.words += whole.word_texts.size();
  frequencies_.add(whole);
  for (std::size_t i = 0; i < checked.windows.size(); ++i) {
    Sequence& window = checked.windows[i];
    if (checked.windows.size() > 1) window.id = fmt::format("{} window {}", checked.sentence.where, i);
    block.counts.tokens += window.queries();
    tokens_hash_ = content_hash(std::as_bytes(std::span(window.ids)), tokens_hash_);
    block.batch.sequences.push_back(std::move(window));
    block.annotations.push_back(checked.sentence.annotation);
  }
}

std::optional<CorpusBlock> CorpusBlocks::next() {
  std::optional<CorpusBlock> block = probe_ ? std::nullopt : next_of_corpus();
  if (!block) block = next_of_probe();
  if (block) block->number = number_++;
  return block;
}

std::optional<CorpusBlock> CorpusBlocks::next_of_probe() {
  if (!probe_) {
    const ProbeLimits limits{prefix_, model_.config().embedding.vocabulary, limit_};
    probe_ = probe_sequences(options_.probe, limits, vocabulary_);
  }
  const std::size_t most_tokens = std::max(options_.batch_tokens, kMinProbeTokens);
  CorpusBlock block;
  std::size_t tokens = 0;
  for (; next_probe_ < probe_->size() && block.probes.size() < kMaxProbes; ++next_probe_) {
    ProbeSequence& probe = (*probe_)[next_probe_];
    tokens += probe.sequence.queries();
    if (!block.probes.empty() && tokens > most_tokens) break;
    block.probes.push_back(probe.marks);
    block.batch.sequences.push_back(std::move(probe.sequence));
  }
  if (block.probes.empty()) return std::nullopt;
  block.annotations.resize(block.probes.size());
  return block;
}

std::optional<CorpusBlock> CorpusBlocks::next_of_corpus() {
  CorpusBlock block;
  while (true) {
    std::optional<Checked> sentence = std::exchange(pending_, std::nullopt);
    if (!sentence) {
      try {
        sentence = next_sentence();
      } catch (const Error& error) {
        if (!options_.skip_bad || error.status() != Status::bad_input || !stream_) throw;
        ++block.counts.skipped;
        block.skipped.emplace_back(error.what());
        continue;
      }
    }
    if (!sentence) break;
    const std::uint64_t tokens = block.counts.tokens + sentence->sentence.sequence.queries();
    if (block.counts.sentences > 0 && tokens > options_.batch_tokens) {
      pending_ = std::move(sentence);
      break;
    }
    add(std::move(*sentence), block);
  }
  if (block.counts.sentences == 0) {
    if (!any_) {
      const std::string file = escaped(options_.files.front().path.string());
      if (block.skipped.empty()) fail(Status::bad_input, "{}: holds no input", file);
      fail(Status::bad_input, "{}: holds no good input; the first bad one: {}", file, block.skipped.front());
    }
    if (block.skipped.empty()) return std::nullopt;
  }
  return block;
}

std::vector<Sequence> windows_of(const Sequence& sequence, std::size_t length, std::size_t stride) {
  const std::size_t n = sequence.ids.size();
  if (n <= length) return {sequence};
  if (sequence.text_pair)
    fail(Status::bad_input, "input {}: --stride does not support pairs of texts", escaped(sequence.id));
  Window window{.before = 0, .first = 0, .last = 0, .end = n, .n = n};
  const auto added = [&](std::size_t place) { return sequence.text && sequence.special[place] != 0; };
  while (window.before < n && added(window.before)) ++window.before;
  while (window.end > window.before && added(window.end - 1)) --window.end;
  const std::size_t added_tokens = window.before + (n - window.end);
  if (added_tokens >= length) {
    fail(Status::bad_input,
         "input {}: windows of {} tokens have no space for text next to the {} special tokens",
         escaped(sequence.id), length, added_tokens);
  }
  std::vector<Sequence> parts;
  for (window.first = window.before;; window.first += stride) {
    window.last = std::min(window.first + length - added_tokens, window.end);
    parts.push_back(cut(sequence, window));
    if (window.last == window.end) return parts;
  }
}

}  // namespace attnctl
