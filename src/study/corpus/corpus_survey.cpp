#include "study/corpus/corpus_survey.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/interrupt.hpp"
#include "base/pool.hpp"
#include "forward/footprint.hpp"

namespace attnctl {
namespace {

/// Keeps the blocks with the most extreme sizes, for use as trials.
class Samples {
 public:
  void offer(const std::shared_ptr<const CorpusBlock>& block) {
    const BlockSize size = size_of(*block);
    for (Slot& slot : slots_) {
      if (size.tokens == 0 || size.probe != slot.probe) continue;
      if (slot.block && !slot.better(size, size_of(*slot.block))) continue;
      slot.block = block;
    }
  }
  [[nodiscard]] std::vector<std::shared_ptr<const CorpusBlock>> list() const {
    std::vector<std::shared_ptr<const CorpusBlock>> list;
    for (const Slot& slot : slots_) {
      if (slot.block && std::ranges::find(list, slot.block) == list.end()) list.push_back(slot.block);
    }
    return list;
  }

 private:
  struct Slot {
    bool probe = false;
    bool (*better)(const BlockSize& one, const BlockSize& other) = nullptr;
    std::shared_ptr<const CorpusBlock> block = nullptr;
  };
  static bool more_pairs(const BlockSize& one, const BlockSize& other) { return one.pairs > other.pairs; }
  static bool shorter_sequences(const BlockSize& one, const BlockSize& other) {
    const auto length = [](const BlockSize& size) {
      return static_cast<double>(size.pairs) / static_cast<double>(size.tokens);
    };
    return length(one) < length(other);
  }
  static bool fewer_tokens(const BlockSize& one, const BlockSize& other) { return one.tokens < other.tokens; }
  static bool never(const BlockSize& /*one*/, const BlockSize& /*other*/) { return false; }

  std::array<Slot, 5> slots_ = {Slot{false, more_pairs}, Slot{false, shorter_sequences}, Slot{true, never},
                                Slot{false, fewer_tokens}, Slot{false, never}};
};

}  // namespace

BlockSize size_of(const CorpusBlock& block) {
  BlockSize size{.number = block.number, .sentences = block.counts.sentences, .probe = !block.probes.empty()};
  for (const Sequence& sequence : block.batch.sequences) {
    const std::uint64_t tokens = sequence.queries();
    size.tokens += tokens;
    size.pairs += tokens * tokens;
  }
  return size;
}

CorpusSurvey survey_corpus(CorpusBlocks& corpus, const SurveyPass& pass,
                           const std::function<void(std::uint64_t bytes)>& advance) {
  CorpusSurvey survey;
  Samples samples;
  std::uint64_t position = 0;
  while (true) {
    throw_if_interrupted();
    const double begin = thread_seconds();
    auto block = corpus.next();
    survey.read_seconds += thread_seconds() - begin;
    const std::uint64_t reached = corpus.position();
    advance(reached - std::exchange(position, reached));
    if (!block) break;
    survey.blocks.push_back(size_of(*block));
    survey.counts += block->counts;
    if (block->batch.sequences.empty()) continue;
    const PassFootprint footprint =
        pass_footprint(pass.model, block->batch, pass.selection, pass.needs, {.threads = 1});
    const std::uint64_t weights = footprint.resident_weights + footprint.other_weights;
    survey.weight_bytes = std::max(survey.weight_bytes, weights);
    survey.pass_bytes = std::max(survey.pass_bytes, footprint.resident() - weights);
    samples.offer(std::make_shared<const CorpusBlock>(std::move(*block)));
  }
  survey.samples = samples.list();
  return survey;
}

CorpusBlock first_of(const CorpusBlock& block, std::uint64_t tokens) {
  CorpusBlock first = block;
  std::size_t kept = 0;
  std::uint64_t sum = 0;
  for (const Sequence& sequence : block.batch.sequences) {
    sum += sequence.queries();
    if (kept > 0 && sum > tokens) break;
    ++kept;
  }
  first.batch.sequences.resize(kept);
  first.annotations.resize(kept);
  if (!first.probes.empty()) first.probes.resize(kept);
  return first;
}

}  // namespace attnctl
