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

constexpr std::size_t kProbeBlock = 16;    // largest number of sequences of a probe block
constexpr std::size_t kProbeTokens = 256;  // tokens per probe block, if batch_tokens is smaller

}  // namespace

CorpusCounts& CorpusCounts::operator+=(const CorpusCounts& other) {
  sentences += other.sentences;
  words += other.words;
  tokens += other.tokens;
  skipped += other.skipped;
  return *this;
}

CorpusBlocks::CorpusBlocks(const CorpusOptions& options, const Model& model, const Vocabulary& vocabulary,
                           TextEncoder& encoder)
    : options_(options), model_(model), vocabulary_(vocabulary), encoder_(encoder) {
  constexpr std::size_t unbounded = std::numeric_limits<std::size_t>::max();
  limit_ = std::min(options.max_length.value_or(unbounded), model.config().max_positions.value_or(unbounded));
}

std::uint64_t CorpusBlocks::position() const {
  return finished_bytes_ + (stream_ ? stream_->position() : 0);
}

/// Returns the next sentence of the open file, or of the next file.
std::optional<CorpusSentence> CorpusBlocks::next_sentence() {
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
      check(*sentence);
      return sentence;
    }
    finished_bytes_ += stream_->position();
    stream_.reset();
  }
}

void CorpusBlocks::check(const CorpusSentence& sentence) const {
  const std::size_t n = sentence.sequence.queries();
  if (n > limit_ && !options_.stride) {
    fail(Status::bad_input, "{}: {} tokens, at most {} are taken; cut it, or give --stride for windows",
         sentence.where, n, limit_);
  }
  Batch one;
  one.sequences =
      n > limit_ ? windows_of(sentence.sequence, limit_, *options_.stride) : std::vector{sentence.sequence};
  for (Sequence& sequence : one.sequences) sequence.id = sentence.where;
  check_batch(model_, one);
}

void CorpusBlocks::add(CorpusSentence sentence, CorpusBlock& block) {
  Sequence& whole = sentence.sequence;
  for (std::size_t i = 0; !any_ && i < whole.ids.size() && whole.special[i] != 0; ++i)
    prefix_.push_back(whole.ids[i]);
  any_ = true;
  ++block.counts.sentences;
  block.counts.words += whole.word_texts.size();
  frequencies_.add(whole);
  std::vector<Sequence> parts;
  if (whole.queries() > limit_) {
    parts = windows_of(whole, limit_, *options_.stride);
  } else {
    parts.push_back(std::move(whole));
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Sequence& part = parts[i];
    part.id = parts.size() == 1 ? sentence.where : fmt::format("{} window {}", sentence.where, i);
    block.counts.tokens += part.queries();
    tokens_hash_ = content_hash(std::as_bytes(std::span(part.ids)), tokens_hash_);
    block.batch.sequences.push_back(std::move(part));
    block.annotations.push_back(sentence.annotation);
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
    const ProbeRoom room{prefix_, model_.config().embedding.vocabulary, limit_};
    probe_ = probe_sequences(options_.probe, room, vocabulary_);
  }
  const std::size_t most_tokens = std::max(options_.batch_tokens, kProbeTokens);
  CorpusBlock block;
  std::size_t tokens = 0;
  for (; next_probe_ < probe_->size() && block.probes.size() < kProbeBlock; ++next_probe_) {
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
    std::optional<CorpusSentence> sentence = std::exchange(pending_, std::nullopt);
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
    const std::uint64_t tokens = block.counts.tokens + sentence->sequence.queries();
    if (block.counts.sentences > 0 && tokens > options_.batch_tokens) {
      pending_ = std::move(sentence);
      break;
    }
    add(std::move(*sentence), block);
  }
  if (block.counts.sentences == 0) {
    if (!any_) {
      const bool skipped = !block.skipped.empty();
      fail(Status::bad_input, "{}: holds no {}input{}", escaped(options_.files.front().path.string()),
           skipped ? "good " : "", skipped ? "; the first bad one: " + block.skipped.front() : "");
    }
    if (block.skipped.empty()) return std::nullopt;
  }
  return block;
}

}  // namespace attnctl
