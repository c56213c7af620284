#include "study/corpus/block_trials.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>

#include "base/pool.hpp"
#include "study/corpus/corpus_survey.hpp"

namespace attnctl {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Trials {
 public:
  Trials(const StudyRun& run, StudyState& state) : run_(run), state_(state) {}

  /// Returns the processor time of one worker in seconds, while all workers compute copies of the block.
  double seconds(const CorpusBlock& block) {
    const std::size_t workers = run_.pool.size();
    std::vector<CorpusBlock> blocks(workers, block);
    for (CorpusBlock& each : blocks) each.number = next_number_++;  // add() rejects duplicate numbers
    std::vector<double> seconds(workers);
    run_.pool.run(workers, [&](std::size_t task, std::size_t) {
      const double begin = thread_seconds();
      compute_block(run_, blocks[task], state_, adding_);
      seconds[task] = thread_seconds() - begin;
    });
    return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(workers);
  }

 private:
  const StudyRun& run_;
  StudyState& state_;
  std::mutex adding_;
  std::uint64_t next_number_ = 0;
};

}  // namespace

std::vector<BlockTrial> try_blocks(const StudyRun& run, StudyState& state,
                                   std::span<const std::shared_ptr<const CorpusBlock>> blocks,
                                   double seconds) {
  constexpr std::uint64_t warm_up_tokens = 512;
  const Clock::time_point begin = Clock::now();
  Trials trials(run, state);
  const CorpusBlock small = first_of(*blocks.front(), warm_up_tokens);
  (void)trials.seconds(small);
  const Clock::time_point again = Clock::now();
  (void)trials.seconds(small);
  const double tokens_per_second = static_cast<double>(size_of(small).tokens) / since(again);
  std::vector<BlockTrial> done;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const double left = std::max(seconds - since(begin), 0.0);
    if (i > 0 && left == 0) break;
    const double share = left / static_cast<double>(blocks.size() - i);
    constexpr double most_tokens = 1e15;  // upper bound, so that the value fits in 64 bits
    const CorpusBlock piece =
        first_of(*blocks[i], static_cast<std::uint64_t>(std::min(share * tokens_per_second, most_tokens)));
    done.push_back({size_of(piece), trials.seconds(piece)});
  }
  return done;
}

}  // namespace attnctl
