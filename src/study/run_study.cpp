#include "study/run_study.hpp"

#include <chrono>
#include <cmath>
#include <mutex>
#include <utility>

#include "analysis/head_axes.hpp"
#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "forward/run.hpp"
#include "study/corpus/shuffled_tokens.hpp"

namespace attnctl {
namespace {

using Clock = std::chrono::steady_clock;

/// Passes the patterns of one block to the measures of a study. The rows are computed once for all measures.
class StudyPass final : public Observer {
 public:
  StudyPass(const StudyBlock& block, std::vector<Measure*> measures)
      : block_(block), measures_(std::move(measures)) {
    for (const StudyHead& head : block.shape.heads) heads_.push_back(head.id);
  }

  [[nodiscard]] Needs needs() const override {
    Needs needs;
    for (const Measure* const measure : measures_) needs |= measure->needs();
    return needs;
  }
  void begin(const Model& /*model*/, const Batch& /*batch*/) override {
    for (Measure* const measure : measures_) measure->begin(block_);
  }
  void panel(const AttentionPanel& panel) override {
    const auto head = head_index(heads_, {panel.layer, panel.head});
    if (!head) return;
    rows_.clear();
    const SequenceMarks& marks = block_.marks(panel.sequence);
    const VisibleKeys& visible = block_.visible(panel.sequence, panel.layer);
    std::size_t missing = 0;
    for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
      const std::size_t query = panel.first_query + r;
      const bool masked = !panel.fully_masked.empty() && panel.fully_masked[r] != 0;
      if (!masked) rows_.emplace_back(panel.pattern.row(r), panel.keys(), query, marks);
      const bool finite = masked || std::isfinite(rows_.back().distance);
      if (!finite) rows_.pop_back();
      if ((masked || !finite) && visible.count(query) > 0) ++missing;
    }
    const StudyPanel shown{panel,       *head, rows_, visible, block_.place(panel.sequence, panel.layer),
                           missing == 0};
    for (Measure* const measure : measures_) measure->panel(shown);
  }
  void end() {
    for (Measure* const measure : measures_) measure->end();
  }

 private:
  const StudyBlock& block_;
  std::vector<Measure*> measures_;
  std::vector<HeadId> heads_;
  std::vector<PatternRow> rows_;
};

/// Returns the measures that process blocks of this kind (corpus or probe).
std::vector<Measure*> measures_for(const CorpusBlock& block, const std::vector<const MeasureRow*>& rows,
                                   const std::vector<std::unique_ptr<Measure>>& measures) {
  std::vector<Measure*> wanted;
  for (std::size_t i = 0; i < measures.size(); ++i) {
    if (rows[i]->of_probe != block.probes.empty()) wanted.push_back(measures[i].get());
  }
  return wanted;
}

/// Runs the forward pass of one block and gives its patterns to measures.
class BlockPass {
 public:
  BlockPass(const StudyRun& run, const StudyShape& shape, const CorpusBlock& corpus)
      : run_(run), shape_(shape), corpus_(corpus) {}

  void show(const Model& model, const std::vector<Measure*>& measures, Warnings& warnings) const {
    show(model, corpus_.batch, measures, warnings);
  }
  /// Runs `batch` instead of the batch of the block. The measures score the positions that the block defines.
  void show(const Model& model, const Batch& batch, const std::vector<Measure*>& measures,
            Warnings& warnings) const {
    if (batch.sequences.empty() || measures.empty()) return;
    Pool alone(1);
    StudyBlock block(model, run_.vocabulary, corpus_, shape_);
    block.frequencies = run_.frequencies;
    StudyPass pass(block, measures);
    Observer* const observers[] = {&pass};
    RunContext context{.pool = alone, .warnings = warnings};
    run_forward(model, batch, run_.selection, observers, context);
    pass.end();
  }

 private:
  const StudyRun& run_;
  const StudyShape& shape_;
  const CorpusBlock& corpus_;
};

/// Runs the order-dependent measures on shuffled tokens of the block. Returns their states, merged over all
/// repetitions.
std::vector<std::unique_ptr<Measure>> compute_shuffled(const StudyRun& run, const CorpusBlock& corpus,
                                                       const StudyState& state) {
  const StudyHeader& header = state.header();
  auto all = state.make_shuffled_measures();
  if (all.empty() || !corpus.probes.empty()) return all;
  const BlockPass pass(run, header.shape, corpus);
  for (std::size_t i = 0; i < header.null_shuffles; ++i) {
    Warnings ignored;  // shuffled text is expected to be unusual
    const auto once = state.make_shuffled_measures();
    pass.show(run.model, shuffled_tokens(corpus, header.shape.seed, i),
              measures_for(corpus, header.shuffled_measures(), once), ignored);
    for (std::size_t m = 0; m < all.size(); ++m) all[m]->merge(*once[m]);
  }
  return all;
}

/// State that all workers share. One worker at a time reads the corpus or changes the study state.
class Runner {
 public:
  Runner(const StudyRun& run, StudyState& state)
      : run_(run),
        state_(state),
        blocks_(run.corpus, run.model, run.vocabulary, run.encoder),
        next_checkpoint_(Clock::now() + between()) {}

  /// Computes blocks until there are none left. If a worker throws, the others take no more blocks.
  void work() {
    try {
      while (const auto block = take()) compute(*block);
    } catch (...) {
      const std::lock_guard lock(reading_);
      ended_ = true;
      throw;
    }
  }
  void finish() {
    state_.end_corpus(read_, blocks_.tokens_hash());
    write_checkpoint();
  }
  void write_checkpoint() {
    if (!run_.checkpoint.path) return;
    const InterruptHold hold;
    state_.write(*run_.checkpoint.path);
  }

 private:
  [[nodiscard]] Clock::duration between() const {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(run_.checkpoint.seconds));
  }

  /// Returns the next block of this shard that is not done yet.
  std::optional<CorpusBlock> take() {
    const std::lock_guard lock(reading_);
    while (!ended_) {
      throw_if_interrupted();
      auto block = read();
      const std::uint64_t position = blocks_.position();
      run_.progress.advance(position - std::exchange(position_, position));
      if (!block) {
        ended_ = true;
        break;
      }
      ++read_;
      if (run_.shard.has(block->number) && !has(block->number)) return block;
    }
    return std::nullopt;
  }
  /// Reads the next block. After an error, `ended_` stops the other workers from reading on.
  std::optional<CorpusBlock> read() {
    try {
      return blocks_.next();
    } catch (...) {
      ended_ = true;
      throw;
    }
  }
  [[nodiscard]] bool has(std::uint64_t block) {
    const std::lock_guard lock(adding_);
    return state_.has(block);
  }

  void compute(const CorpusBlock& corpus) {
    compute_block(run_, corpus, state_, adding_);
    const std::lock_guard lock(adding_);
    if (!run_.checkpoint.path || Clock::now() < next_checkpoint_) return;
    write_checkpoint();
    next_checkpoint_ = Clock::now() + between();
  }

  const StudyRun& run_;
  StudyState& state_;
  std::mutex reading_;  // guards the members up to ended_
  CorpusBlocks blocks_;
  std::uint64_t read_ = 0;  // number of blocks read
  std::uint64_t position_ = 0;
  bool ended_ = false;
  std::mutex adding_;  // guards the state and next_checkpoint_
  Clock::time_point next_checkpoint_;
};

}  // namespace

TokenFrequencies count_tokens(const CountRun& run) {
  CorpusOptions corpus = run.corpus;
  corpus.probe = {};
  CorpusBlocks blocks(corpus, run.model, run.vocabulary, run.encoder);
  std::uint64_t position = 0;
  while (blocks.next()) {
    throw_if_interrupted();
    run.progress.advance(blocks.position() - std::exchange(position, blocks.position()));
  }
  return blocks.frequencies();
}

void load_weights(const Model& model, const Selection& selection) {
  (void)model.embedding();
  (void)model.final_norm();
  for (std::size_t i = 0; i <= selection.heads.back().layer; ++i) (void)model.layer(i);
}

void load_weights(const StudyRun& run) {
  load_weights(run.model, run.selection);
  for (const Model& model : run.null_models) load_weights(model, run.selection);
}

void compute_block(const StudyRun& run, const CorpusBlock& corpus, StudyState& state, std::mutex& adding) {
  const StudyHeader& header = state.header();
  const BlockPass pass(run, header.shape, corpus);
  const auto measures = [&] {
    const std::lock_guard lock(adding);
    return state.make_block_measures();
  }();
  Warnings warnings;
  pass.show(run.model, measures_for(corpus, header.measures, measures), warnings);
  const auto shuffled = compute_shuffled(run, corpus, state);
  std::vector<std::vector<std::unique_ptr<Measure>>> nulls;
  for (const Model& model : run.null_models) {
    Warnings ignored;  // warnings about random weights
    nulls.push_back(state.make_null_measures());
    pass.show(model, measures_for(corpus, header.null_measures(), nulls.back()), ignored);
  }
  const std::lock_guard lock(adding);
  state.add_shuffled(shuffled);
  for (std::size_t i = 0; i < nulls.size(); ++i) state.add_null(i, nulls[i]);
  state.add(corpus, measures, warnings.list(), run.kernel);
}

void run_study(const StudyRun& run, StudyState& state) {
  load_weights(run);
  Runner runner(run, state);
  try {
    run.pool.run(run.pool.size(), [&](std::size_t, std::size_t) { runner.work(); });
  } catch (const Error& error) {
    if (error.status() == Status::interrupted) runner.write_checkpoint();
    throw;
  }
  runner.finish();
}

}  // namespace attnctl
