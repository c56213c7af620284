#include "study/run_study.hpp"

#include <chrono>
#include <cmath>
#include <deque>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/head_axes.hpp"
#include "analysis/model_summary.hpp"
#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/files/output_file.hpp"
#include "base/interrupt.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "linalg/blas.hpp"
#include "linalg/kernels/kernels.hpp"
#include "study/block_groups.hpp"

namespace attnctl::study {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* kStateFormat = "attnctl.study.state/3";

std::uint64_t parallel_hash(std::span<const std::byte> bytes, Pool& pool) {
  constexpr std::size_t most = std::size_t{4} << 20;
  std::vector<std::uint64_t> hashes((bytes.size() + most - 1) / most);
  pool.run(hashes.size(), [&](std::size_t range, std::size_t /*worker*/) {
    const std::size_t first = range * most;
    hashes[range] = content_hash(bytes.subspan(first, std::min(most, bytes.size() - first)));
  });
  return content_hash(std::as_bytes(std::span(hashes)), bytes.size());
}

/// Hashes the tensors that the model uses. If `forget` is true, releases each tensor after it was read.
std::uint64_t weights_hash(const model::Model& model, Pool& pool, bool forget) {
  checkpoint::Checkpoint& weights = *model.source().weights;
  const auto tensors = weights.tensors();
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (model.tensor_uses()[i].role != model::TensorRole::parameter) continue;
    const checkpoint::TensorInfo& info = tensors[i];
    hash = content_hash(info.name, hash);
    hash = content_hash(name_of(info.dtype), hash);
    hash = content_hash(std::as_bytes(std::span(info.shape)), hash);
    const auto& encoded = weights.encoded(i);  // its bytes need no conversion
    const std::uint64_t values = parallel_hash(encoded ? encoded->bytes : weights.tensor(i).bytes, pool);
    hash = content_hash(std::as_bytes(std::span(&values, 1)), hash);
    if (!forget) continue;
    encoded ? weights.forget_stored(i, encoded->bytes) : weights.release(i);
  }
  return hash;
}

std::string corpus_identity(const CorpusOptions& corpus, Pool& pool) {
  std::vector<std::string> files;
  for (const CorpusFile& file : corpus.files) {
    if (file.path == "-") return "standard input";
    files.push_back(fmt::format("{} bytes {}", size_of_file(file.path),
                                hash_text(parallel_hash(MappedFile(file.path).bytes(), pool))));
  }
  return fmt::format("{}", fmt::join(files, ", "));
}

void load_layers(const model::Model& model, const StudySettings& settings) {
  (void)model.embedding();
  (void)model.final_norm();
  const bool all = settings.removes_heads();
  const std::size_t layers = all ? model.config().layers.size() : settings.selection.heads.back().layer + 1;
  for (std::size_t i = 0; i < layers; ++i) (void)model.layer(i, nullptr, model::WeightForm::stored);
  if (all && model.config().head.present) (void)model.head(nullptr, model::WeightForm::stored);
}

/// Passes the patterns of one block to measures. Each PatternRow is computed once for all measures.
class MeasureObserver final : public forward::Observer {
 public:
  /// All arguments are borrowed. `heads` are the selected heads, in ascending order.
  MeasureObserver(const StudyBlock& block, std::span<Measure* const> measures,
                  std::span<const model::HeadId> heads)
      : block_(block), measures_(measures), heads_(heads) {}

  [[nodiscard]] forward::Needs needs() const override {
    forward::Needs needs;
    for (const Measure* const measure : measures_) needs |= measure->needs();
    return needs;
  }
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override {
    for (Measure* const measure : measures_) {
      if (measure->needs().stream) measure->stream(sequence, layer, values);
    }
  }
  void panel(const forward::AttentionPanel& panel) override {
    const auto head = analysis::head_index(heads_, {panel.layer, panel.head});
    if (!head) return;
    rows_.clear();
    const analysis::SequenceMarks& marks = block_.marks(panel.sequence);
    const forward::VisibleKeys& visible = block_.visible(panel.sequence, panel.layer);
    bool complete = true;
    for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
      const std::size_t query = panel.first_query + r;
      if (panel.fully_masked.empty() || panel.fully_masked[r] == 0) {
        rows_.emplace_back(panel.pattern.row(r), panel.keys(), query, marks);
        if (std::isfinite(rows_.back().distance)) continue;
        rows_.pop_back();
      }
      if (visible.count(query) > 0) complete = false;
    }
    const StudyPanel shown{panel,   *head, rows_, visible, block_.visible_index(panel.sequence, panel.layer),
                           complete};
    for (Measure* const measure : measures_) measure->panel(shown);
  }

 private:
  const StudyBlock& block_;
  std::span<Measure* const> measures_;
  std::span<const model::HeadId> heads_;
  std::vector<analysis::PatternRow> rows_;
};

/// Passes the events of a pass over several blocks to the observers of these blocks. The sequences of the
/// blocks follow each other in the batch of the pass.
class BlocksObserver final : public forward::Observer {
 public:
  void add(forward::Observer& observer, std::size_t sequences) {
    for (std::size_t i = 0; i < sequences; ++i) places_.push_back({&observer, i});
    needs_ |= observer.needs();
  }
  [[nodiscard]] std::size_t sequences() const { return places_.size(); }

  [[nodiscard]] forward::Needs needs() const override { return needs_; }
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override {
    places_[sequence].observer->stream(places_[sequence].sequence, layer, values);
  }
  void panel(const forward::AttentionPanel& panel) override {
    forward::AttentionPanel own = panel;
    own.sequence = places_[panel.sequence].sequence;
    places_[panel.sequence].observer->panel(own);
  }

 private:
  struct ObservedSequence {
    forward::Observer* observer;
    std::size_t sequence;  // in its block
  };
  std::vector<ObservedSequence> places_;  // [sequences of all blocks]
  forward::Needs needs_ = {.patterns = false};
};

}  // namespace

StudyIdentity study_identity(const StudySettings& settings, const model::Model& model, Pool& pool,
                             bool forget) {
  const auto or_none = [](const std::optional<std::size_t>& number) {
    return number ? std::to_string(*number) : std::string("none");
  };
  const auto named = [&](model::HeadId head) { return model::head_name(model.config(), head); };
  const auto versioned = [](const MeasureRow* row) { return fmt::format("{}/{}", row->name, row->version); };
  std::string frequencies = settings.needs_frequencies() ? "of the corpus" : "none";
  if (settings.frequencies)
    frequencies = hash_text(parallel_hash(MappedFile(*settings.frequencies).bytes(), pool));
  StudyIdentity identity = {{"state", kStateFormat},
                            {"config", hash_text(content_hash(model.source().config_text))},
                            {"weights", hash_text(weights_hash(model, pool, forget))},
                            {"heads", join_texts(settings.selection.heads, named, ",")},
                            {"measures", join_texts(settings.measures, versioned, ",")},
                            {"corpus", corpus_identity(settings.corpus, pool)},
                            {"batch_tokens", std::to_string(settings.corpus.batch_tokens)},
                            {"max_length", or_none(settings.corpus.max_length)},
                            {"stride", or_none(settings.corpus.stride)},
                            {"seed", std::to_string(settings.seed)},
                            {"skip_bad", fmt::format("{}", settings.corpus.skip_bad)},
                            {"fold_subtypes", fmt::format("{}", settings.fold_subtypes)},
                            {"null_model", std::to_string(settings.null_models)},
                            {"null_shuffle", std::to_string(settings.null_shuffles)},
                            {"frequencies", frequencies}};
  if (!settings.removes_heads()) return identity;
  const AblationSettings& ablation = settings.ablation;
  std::string sets, mean_from = "the corpus";
  for (const RemovedSet& set : ablation.sets) {
    sets += fmt::format("{}={}", set.name, join_texts(set.heads, named, "+"));
    for (const std::uint64_t layer : set.mlps) sets += fmt::format(" mlp {}", layer);
    sets += ';';
  }
  if (!ablation.mean_from.empty())
    mean_from = corpus_identity({.files = ablation.mean_from, .max_length = {}, .stride = {}}, pool);
  identity.insert(
      identity.end(),
      {{"replace", std::string(name_of(ablation.replacement))},
       {"by_position", fmt::format("{}", ablation.by_position)},
       {"mean_from", mean_from},
       {"sets", fmt::format("{} ({})", ablation.sets.size(), hash_text(content_hash(sets)))},
       {"mask_rate", fmt::format("{}", ablation.mask_rate)},
       {"answer", ablation.answer ? fmt::format("{} not {}", ablation.answer->right, ablation.answer->wrong)
                                  : "none"}});
  return identity;
}

StudyHeader plain_header(const StudySettings& settings, const model::Model& model) {
  StudyShape shape{.heads = {}, .seed = settings.seed, .fold_subtypes = settings.fold_subtypes};
  if (settings.removes_heads())
    shape.ablated = std::make_shared<const std::vector<RemovedSet>>(settings.ablation.sets);
  const model::ModelConfig& config = model.config();
  for (const model::HeadId id : settings.selection.heads) {
    shape.heads.push_back({id, model::head_name(config, id), analysis::component_cell(config, id.layer),
                           config.layers.at(id.layer).number, analysis::kv_head_of(config, id)});
  }
  return {.identity = {},
          .shape = std::move(shape),
          .measures = settings.measures,
          .null_models = settings.null_models,
          .null_shuffles = settings.null_shuffles};
}

StudyBeginning begin_study(const StudyInput& input, Pool& pool, Progress& progress) {
  const StudySettings& settings = input.settings;
  StudyBeginning beginning;
  std::optional<FileVersion> of_frequencies;  // two tasks read this file
  if (settings.frequencies) of_frequencies = version_of_file(*settings.frequencies);
  pool.run(2, [&](std::size_t task, std::size_t /*worker*/) {
    if (task == 0) {
      Pool alone(1);
      StudyHeader& header = beginning.header = plain_header(settings, input.model);
      header.identity = study_identity(settings, input.model, alone, input.memory > 0);
      header.model = analysis::model_record(input.model);
      header.model_path = input.model.name();
      for (const CorpusFile& file : settings.corpus.files) header.files.push_back(file.path.string());
      if (input.memory == 0) load_layers(input.model, settings);
    } else if (settings.needs_frequencies() && settings.frequencies) {
      beginning.frequencies = read_frequencies(*settings.frequencies, input.vocabulary,
                                               input.model.config().embedding.vocabulary);
    } else if (settings.needs_frequencies()) {
      progress.begin("frequencies", corpus_bytes(settings.corpus), "byte");
      CorpusBlocks blocks(settings.corpus, input.model, input.vocabulary, input.encoder);
      while (blocks.next()) {
        throw_if_interrupted();
        progress.reach(blocks.bytes());
      }
      progress.end();
      beginning.frequencies = blocks.frequencies();
    }
  });
  if (of_frequencies) require_version(*settings.frequencies, *of_frequencies);
  if (settings.removes_heads()) beginning.ablation = prepare_ablation(input, pool, progress);
  return beginning;
}

void load_weights(const StudyRun& run) {
  const StudySettings& settings = run.input.settings;
  load_layers(run.input.model, settings);
  for (const model::Model& model : run.null_models) load_layers(model, settings);
}

void require_streamable(const StudySettings& settings) {
  if (settings.null_models > 0)
    fail(Status::usage, "--memory: random models (--null-model) need all weights; leave one of the two out");
}

std::uint64_t compute_blocks(const StudyRun& run, std::span<const CorpusBlock> blocks, bool streamed,
                             StudyState& state, std::mutex& adding) {
  std::size_t streamed_rows = 0;
  for (const CorpusBlock& block : blocks) streamed_rows += streamed ? rows_of(block.batch) : 0;
  const StudyHeader& header = state.header();
  std::vector<StudyMeasures> measures;
  {
    const std::lock_guard lock(adding);
    for (std::size_t i = 0; i < blocks.size(); ++i) measures.push_back(state.make_block_measures());
  }
  // Runs a model on the batches, one for each block, and passes the patterns to the measures of the block.
  // The measures read tokens and annotations from the block, even if its batch has shuffled tokens. Skips
  // measures that do not process blocks of this kind (corpus or probe).
  const auto show = [&](const model::Model& model, std::span<const input::Batch> batches,
                        const std::vector<const MeasureRow*>& rows, std::span<const Measures* const> all,
                        Warnings& raised) {
    const forward::Selection& selection = run.input.settings.selection;
    std::deque<StudyBlock> shown;
    std::deque<MeasureObserver> observers;
    std::vector<std::vector<Measure*>> wanted(blocks.size());
    std::vector<std::size_t> starts;
    BlocksObserver group;
    input::Batch joined;
    const input::Batch* whole = nullptr;
    bool runs = false;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      for (std::size_t i = 0; i < all[b]->size(); ++i) {
        if (rows[i]->probe_only != blocks[b].probes.empty()) wanted[b].push_back((*all[b])[i].get());
      }
      if (batches[b].sequences.empty() || wanted[b].empty()) continue;
      StudyBlock& block = shown.emplace_back(model, blocks[b], header.shape);
      block.frequencies = run.frequencies;
      block.ablation = run.ablation;
      block.streamed = streamed;
      block.warnings = &raised;
      starts.push_back(group.sequences());
      group.add(observers.emplace_back(block, wanted[b], selection.heads), batches[b].sequences.size());
      whole = &batches[b];
      if (blocks.size() > 1) std::ranges::copy(batches[b].sequences, std::back_inserter(joined.sequences));
      for (Measure* const measure : wanted[b]) measure->begin(block);
      runs =
          runs || !std::ranges::all_of(wanted[b], [](const Measure* one) { return one->runs_own_passes(); });
    }
    if (shown.empty()) return;
    Pool alone(1);
    forward::Observer* const observer[] = {&group};
    forward::RunContext context{.pool = alone, .warnings = raised};
    context.streamed_rows = streamed_rows;
    context.block_starts = starts;
    if (runs) forward::run_forward(model, blocks.size() > 1 ? joined : *whole, selection, observer, context);
    for (const auto& of_block : wanted) {
      for (Measure* const measure : of_block) measure->end();
    }
  };
  const auto all_of = [&](auto member) {
    std::vector<const Measures*> list;
    for (const StudyMeasures& one : measures) list.push_back(&member(one));
    return list;
  };
  std::vector<input::Batch> batches;
  for (const CorpusBlock& block : blocks) batches.push_back(block.batch);
  Warnings warnings;
  show(run.input.model, batches, header.measures,
       all_of([](const StudyMeasures& one) -> const Measures& { return one.own; }), warnings);
  if (blocks.size() > 1 && !warnings.list().empty()) {  // each block has its own warnings
    std::uint64_t largest = 0;
    for (const CorpusBlock& block : blocks)
      largest = std::max(largest, compute_blocks(run, {&block, 1}, streamed, state, adding));
    return largest;
  }
  Warnings ignored;  // shuffled tokens and random weights cause warnings that say nothing about the study
  const auto shuffled_rows = header.shuffled_measures();
  for (std::size_t i = 0; i < header.null_shuffles; ++i) {
    std::vector<Measures> once;
    std::vector<const Measures*> list;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      once.push_back(make_measures(shuffled_rows, header.shape));
      batches[b] =
          blocks[b].probes.empty() ? shuffled_tokens(blocks[b], header.shape.seed, i) : input::Batch{};
    }
    for (const Measures& one : once) list.push_back(&one);
    show(run.input.model, batches, shuffled_rows, list, ignored);
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (!blocks[b].probes.empty()) continue;
      for (std::size_t m = 0; m < once[b].size(); ++m) measures[b].shuffled[m]->merge(*once[b][m]);
    }
  }
  if (!run.null_models.empty()) {
    for (std::size_t b = 0; b < blocks.size(); ++b) batches[b] = blocks[b].batch;
  }
  const auto null_rows = header.measures_with(&MeasureRow::gives_evidence);
  for (std::size_t i = 0; i < run.null_models.size(); ++i)
    show(run.null_models[i], batches, null_rows,
         all_of([&](const StudyMeasures& one) -> const Measures& { return one.nulls[i]; }), ignored);
  const std::string kernel = fmt::format("{}/{}", linalg::blas_kernel(), linalg::kernels().name);
  std::uint64_t largest = 0;
  for (std::size_t b = 0; streamed && b < blocks.size(); ++b) {
    StateWriter written;
    for (const Measure* const measure : measures[b].all()) measure->save(written);
    largest = std::max<std::uint64_t>(largest, written.bytes().size());
  }
  const std::lock_guard lock(adding);
  for (std::size_t b = 0; b < blocks.size(); ++b) state.add(blocks[b], measures[b], warnings.list(), kernel);
  return largest;
}

namespace {

/// What a worker keeps between two groups of blocks.
struct BlockWorker {
  std::optional<CorpusBlock> left = {};  // the next block, which did not fit into the group before
  std::uint64_t state_bytes = 0;         // of the block with the largest state so far
};

/// Hands out the blocks of a shard that are not done yet to workers on several threads.
class BlockQueue {
 public:
  /// References are borrowed. `adding` guards the state.
  BlockQueue(const StudyRun& run, const MemoryShares& shares, const StudyState& state, std::mutex& adding)
      : run_(run),
        shares_(shares),
        state_(state),
        adding_(adding),
        blocks_(run.input.settings.corpus, run.input.model, run.input.vocabulary, run.input.encoder),
        all_bytes_(corpus_bytes(run.input.settings.corpus)) {}

  /// Returns the blocks that a worker computes together: one, if the weights stay in memory or the size of
  /// the state of a block is not known yet; empty at the end. Throws Error(limit) if a block needs too much
  /// memory.
  [[nodiscard]] std::vector<CorpusBlock> take_group(BlockWorker& worker) {
    std::vector<CorpusBlock> group;
    GroupSize size(shares_, worker.state_bytes, rows_of_next_group());
    while (auto block = worker.left ? std::exchange(worker.left, std::nullopt) : take()) {
      BlockMemory memory;
      if (shares_.one_layer_at_a_time()) memory = needs_of(run_.input, shares_, block->batch).memory;
      if (!size.add(memory)) {
        if (group.empty()) refuse_block(run_.input, shares_, run_.pool.size(), *block);
        worker.left = std::move(block);
        break;
      }
      group.push_back(std::move(*block));
      if (size.full()) break;
    }
    return group;
  }
  /// No worker gets another block.
  void stop() {
    const std::lock_guard lock(reading_);
    ended_ = true;
  }
  /// For after the last block: the number of blocks of all shards, and CorpusBlocks::tokens_hash().
  [[nodiscard]] std::uint64_t blocks_read() const { return blocks_read_; }
  [[nodiscard]] std::uint64_t tokens_hash() const { return blocks_.tokens_hash(); }

 private:
  [[nodiscard]] std::optional<CorpusBlock> take() {
    const std::lock_guard lock(reading_);
    while (!ended_) {
      throw_if_interrupted();
      ended_ = true;  // remains true after an error, so that the other workers stop reading
      run_.progress.reach(blocks_.bytes());  // of the blocks that were taken before
      auto block = blocks_.next();
      if (!block) break;
      ended_ = false;
      ++blocks_read_;
      if (!run_.shard.has(block->number)) continue;
      rows_read_ += rows_of(block->batch);
      const std::lock_guard state_lock(adding_);
      if (!state_.done().contains(block->number)) return block;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::size_t rows_of_next_group() {
    const std::lock_guard lock(reading_);
    const std::uint64_t bytes = blocks_.bytes();
    if (all_bytes_ <= bytes || bytes == 0) return kUsualRows;  // standard input, or the probe
    const double left = static_cast<double>(all_bytes_ - bytes) / static_cast<double>(bytes);
    return fair_rows(static_cast<double>(rows_read_) * left, run_.pool.size());
  }

  const StudyRun& run_;
  const MemoryShares& shares_;
  const StudyState& state_;
  std::mutex& adding_;
  std::mutex reading_;  // guards the members below
  CorpusBlocks blocks_;
  std::uint64_t all_bytes_, blocks_read_ = 0, rows_read_ = 0;
  bool ended_ = false;
};

}  // namespace

void run_study(const StudyRun& run, StudyState& state) {
  const StudyInput& input = run.input;
  const MemoryShares shares = share_memory(input, run.pool.size());
  if (!shares.one_layer_at_a_time()) load_weights(run);
  std::mutex adding;  // guards the state and next_checkpoint
  BlockQueue blocks(run, shares, state, adding);
  const auto between =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(run.checkpoint_seconds));
  Clock::time_point next_checkpoint = Clock::now() + between;

  const auto write_checkpoint = [&] {
    if (!run.checkpoint) return;
    const InterruptHold hold;
    require_versions(input.settings.corpus);
    OutputFile out(*run.checkpoint);
    state.write(out);
    out.commit();
  };
  // Computes blocks until no blocks are left. If a worker throws, the other workers take no more blocks.
  const auto work = [&](std::size_t /*task*/, std::size_t /*worker*/) {
    try {
      BlockWorker worker;
      for (auto group = blocks.take_group(worker); !group.empty(); group = blocks.take_group(worker)) {
        const std::uint64_t largest = compute_blocks(run, group, shares.one_layer_at_a_time(), state, adding);
        worker.state_bytes = std::max(worker.state_bytes, largest);
        const std::lock_guard lock(adding);
        if (!run.checkpoint || Clock::now() < next_checkpoint) continue;
        write_checkpoint();
        next_checkpoint = Clock::now() + between;
      }
    } catch (...) {
      blocks.stop();
      throw;
    }
  };
  try {
    run.pool.run(run.pool.size(), work);
  } catch (const Error& error) {
    if (error.status() != Status::interrupted || !run.checkpoint) throw;
    write_checkpoint();
    fail(Status::interrupted, "interrupted; {} has {}; run the same command to continue",
         escaped(run.checkpoint->string()), counted(state.done().size(), "block"));
  }
  require_versions(input.settings.corpus);
  Warnings of_texts;
  input.encoder.checks.warn(of_texts);
  state.end_corpus(blocks.blocks_read(), blocks.tokens_hash(), of_texts.list());
  write_checkpoint();
}

}  // namespace attnctl::study
