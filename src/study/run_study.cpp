#include "study/run_study.hpp"

#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/head_axes.hpp"
#include "analysis/model_summary.hpp"
#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/files/output_file.hpp"
#include "base/interrupt.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "linalg/blas.hpp"
#include "linalg/kernels/kernels.hpp"

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

std::uint64_t weights_hash(const model::Model& model, Pool& pool) {
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

}  // namespace

StudyIdentity study_identity(const StudySettings& settings, const model::Model& model, Pool& pool) {
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
                            {"weights", hash_text(weights_hash(model, pool))},
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
      header.identity = study_identity(settings, input.model, alone);
      header.model = analysis::model_record(input.model);
      header.model_path = input.model.name();
      for (const CorpusFile& file : settings.corpus.files) header.files.push_back(file.path.string());
      load_layers(input.model, settings);
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
  if (settings.removes_heads())
    beginning.ablation = prepare_ablation(settings.ablation, settings.corpus, settings.seed, input.model,
                                          input.vocabulary, input.encoder, pool, progress);
  return beginning;
}

void load_weights(const StudyRun& run) {
  const StudySettings& settings = run.input.settings;
  load_layers(run.input.model, settings);
  for (const model::Model& model : run.null_models) load_layers(model, settings);
}

void compute_block(const StudyRun& run, const CorpusBlock& corpus, StudyState& state, std::mutex& adding) {
  const StudyHeader& header = state.header();
  const StudyMeasures measures = [&] {
    const std::lock_guard lock(adding);
    return state.make_block_measures();
  }();
  // Runs a model on `batch` and passes the patterns to the measures. The measures read tokens and annotations
  // from `corpus`, even if `batch` has shuffled tokens. Skips measures that do not process blocks of this
  // kind (corpus or probe).
  const auto show = [&](const model::Model& model, const input::Batch& batch,
                        const std::vector<const MeasureRow*>& rows, const Measures& all, Warnings& raised) {
    std::vector<Measure*> wanted;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (rows[i]->probe_only != corpus.probes.empty()) wanted.push_back(all[i].get());
    }
    if (batch.sequences.empty() || wanted.empty()) return;
    Pool alone(1);
    StudyBlock block(model, corpus, header.shape);
    block.frequencies = run.frequencies;
    block.ablation = run.ablation;
    block.warnings = &raised;
    const forward::Selection& selection = run.input.settings.selection;
    MeasureObserver observer(block, wanted, selection.heads);
    forward::Observer* const observers[] = {&observer};
    forward::RunContext context{.pool = alone, .warnings = raised};
    for (Measure* const measure : wanted) measure->begin(block);
    if (!std::ranges::all_of(wanted, [](const Measure* one) { return one->runs_own_passes(); }))
      forward::run_forward(model, batch, selection, observers, context);
    for (Measure* const measure : wanted) measure->end();
  };
  Warnings warnings;
  show(run.input.model, corpus.batch, header.measures, measures.own, warnings);
  Warnings ignored;  // shuffled tokens and random weights cause warnings that say nothing about the study
  const auto shuffled_rows = header.shuffled_measures();
  for (std::size_t i = 0; i < header.null_shuffles && corpus.probes.empty(); ++i) {
    const Measures once = make_measures(shuffled_rows, header.shape);
    show(run.input.model, shuffled_tokens(corpus, header.shape.seed, i), shuffled_rows, once, ignored);
    for (std::size_t m = 0; m < once.size(); ++m) measures.shuffled[m]->merge(*once[m]);
  }
  const auto null_rows = header.measures_with(&MeasureRow::gives_evidence);
  for (std::size_t i = 0; i < measures.nulls.size(); ++i)
    show(run.null_models[i], corpus.batch, null_rows, measures.nulls[i], ignored);
  const std::string kernel = fmt::format("{}/{}", linalg::blas_kernel(), linalg::kernels().name);
  const std::lock_guard lock(adding);
  state.add(corpus, measures, warnings.list(), kernel);
}

void run_study(const StudyRun& run, StudyState& state) {
  load_weights(run);
  const StudyInput& input = run.input;
  std::mutex reading;  // guards the next three variables
  CorpusBlocks blocks(input.settings.corpus, input.model, input.vocabulary, input.encoder);
  std::uint64_t blocks_read = 0;
  bool ended = false;
  std::mutex adding;  // guards the state and next_checkpoint
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
  // Returns the next block of this shard that is not done yet.
  const auto take = [&]() -> std::optional<CorpusBlock> {
    const std::lock_guard lock(reading);
    while (!ended) {
      throw_if_interrupted();
      ended = true;  // remains true after an error, so that the other workers stop reading
      run.progress.reach(blocks.bytes());  // of the blocks that were taken before
      auto block = blocks.next();
      if (!block) break;
      ended = false;
      ++blocks_read;
      if (!run.shard.has(block->number)) continue;
      const std::lock_guard state_lock(adding);
      if (!state.done().contains(block->number)) return block;
    }
    return std::nullopt;
  };
  // Computes blocks until no blocks are left. If a worker throws, the other workers take no more blocks.
  const auto work = [&](std::size_t /*task*/, std::size_t /*worker*/) {
    try {
      while (const auto block = take()) {
        compute_block(run, *block, state, adding);
        const std::lock_guard lock(adding);
        if (!run.checkpoint || Clock::now() < next_checkpoint) continue;
        write_checkpoint();
        next_checkpoint = Clock::now() + between;
      }
    } catch (...) {
      const std::lock_guard lock(reading);
      ended = true;
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
  state.end_corpus(blocks_read, blocks.tokens_hash(), of_texts.list());
  write_checkpoint();
}

}  // namespace attnctl::study
