#include "study/open_study.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

#include "base/files/input_file.hpp"
#include "base/files/output_file.hpp"
#include "base/memory.hpp"
#include "base/text.hpp"
#include "study/corpus.hpp"

namespace attnctl::study {
namespace {

/// Returns whether the corpus comes from standard input, so that it can be read only once.
bool reads_standard_input(const CorpusOptions& corpus) {
  return std::ranges::any_of(corpus.files, [](const CorpusFile& file) { return file.path == "-"; });
}

/// Returns the state in the file of --checkpoint; nullopt without --checkpoint, or if the file does not
/// exist. Throws Error if the file cannot be read or cannot be written.
std::optional<StudyState> open_checkpoint(const std::optional<std::string>& path) {
  if (!path) return std::nullopt;
  std::optional<StudyState> state;
  if (std::filesystem::exists(*path)) state = StudyState::read(*path);
  const OutputFile writable(*path);
  return state;
}

/// Returns the number of tokens per block if --batch-tokens is not given. A small corpus has several blocks
/// too, because the best heads are chosen on one half of the blocks and scored on the other.
std::size_t default_batch_tokens(const CorpusOptions& corpus) {
  constexpr std::size_t kUsual = CorpusOptions().batch_tokens;
  if (reads_standard_input(corpus)) return kUsual;
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(corpus_bytes(corpus) / 256, 16, kUsual));
}

}  // namespace

std::string order_measures() {
  std::vector<std::string_view> names;
  for (const MeasureRow& row : measure_catalogue())
    if (row.depends_on_order) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<const MeasureRow*> requested_measures(const StudyRequest& request, Warnings& warnings) {
  std::vector<const MeasureRow*> measures = parse_measures(request.measures);
  if (request.causal) {
    std::ranges::move(parse_measures("roles,ablation"), std::back_inserter(measures));
    std::ranges::sort(measures);  // in the order of the catalogue
    measures.erase(std::unique(measures.begin(), measures.end()), measures.end());
  }
  const bool needed = std::ranges::any_of(measures, &MeasureRow::needs_frequencies);
  if (request.settings.frequencies && !needed)
    fail(Status::usage, "--frequencies: only the measure rare uses it; add rare to --measures");
  if (request.settings.null_models > 0 &&
      std::ranges::find(measures, "roles", &MeasureRow::name) == measures.end())
    warnings.add("unused_null_model",
                 "--null-model: only the measure roles uses random models; add roles to --measures");
  if (request.settings.null_shuffles > 0 && std::ranges::none_of(measures, &MeasureRow::depends_on_order))
    warnings.add("unused_null_shuffle",
                 fmt::format("--null-shuffle: only the measures {} use shuffled tokens; add one of them to "
                             "--measures",
                             order_measures()));
  if (request.settings.frequencies || !needed || !reads_standard_input(request.settings.corpus))
    return measures;
  const char* const why =
      "reads the corpus twice, to count its tokens first; give a file, or --frequencies FILE";
  if (!request.measures.empty()) fail(Status::usage, "--input -: the measure rare {}", why);
  std::erase_if(measures, [](const MeasureRow* row) { return row->needs_frequencies; });
  warnings.add("no_frequencies", fmt::format("skipped the measure rare: it {}", why), 1);
  return measures;
}

OpenStudy open_study(StudyRequest request, std::vector<const MeasureRow*> measures, inspect::OpenModel open,
                     Warnings& warnings) {
  OpenStudy study{std::move(request.settings), std::move(open)};
  study.used = memory_use().now;
  StudySettings& settings = study.settings;
  const model::ModelConfig& config = study.open.model.config();
  // Only the removal of heads runs the decoder of an encoder-decoder model.
  const bool decodes = std::ranges::all_of(measures, &MeasureRow::on_request);
  settings.selection = inspect::select_heads(request.heads, config, decodes);
  if (config.max_positions && settings.corpus.max_length.value_or(0) > *config.max_positions)
    warnings.add("long_max_length", fmt::format("--max-length: the model has only {} positions, which remain "
                                                "the limit",
                                                *config.max_positions));
  const auto of_first = std::ranges::count(settings.selection.heads, 0U, &model::HeadId::layer);
  if (std::ranges::find(measures, "rollout", &MeasureRow::name) != measures.end() &&
      std::cmp_less(of_first, config.layers.front().attention.heads))
    warnings.add("no_rollout", "rollout is empty: it starts at layer 0, so select all heads of layer 0");
  if (std::ranges::any_of(measures, &MeasureRow::probe_only))
    settings.corpus.probe = {.sequences = 32, .seed = settings.seed};
  for (CorpusFile& file : settings.corpus.files)
    if (file.path != "-") file.version = version_of_file(file.path);
  settings.corpus.batch_tokens =
      request.batch_tokens ? *request.batch_tokens : default_batch_tokens(settings.corpus);
  if (request.measures.empty()) measures = within_limit(measures, settings.selection.heads.size(), warnings);
  const auto& files = settings.corpus.files;
  std::erase_if(measures, [&](const MeasureRow* row) {
    const auto usable = std::ranges::find_first_of(files, row->formats, {}, &CorpusFile::format);
    if (row->formats.empty() || usable != files.end()) return false;
    if (request.measures.empty()) return true;
    fail(Status::usage, "--measures {}: got {}, need {}", row->name, escaped(files[0].path.c_str()),
         row->needs);
  });
  settings.measures = std::move(measures);
  if (settings.removes_heads()) {
    settings.corpus.targets = config.decoder.has_value();
    // Each thread keeps two numbers for each token of its block and each token of the vocabulary.
    constexpr std::size_t kMostKept = std::size_t{1} << 25U;
    const std::size_t vocabulary = std::max<std::size_t>(config.embedding.vocabulary, 1);
    if (!request.batch_tokens)
      settings.corpus.batch_tokens =
          std::min(settings.corpus.batch_tokens, std::max<std::size_t>(kMostKept / vocabulary, 16));
    if (!config.layers.front().attention.causal &&
        std::ranges::find(settings.measures, "probe_ablation", &MeasureRow::name) != settings.measures.end())
      fail(Status::bad_input,
           "{}: the measure probe_ablation (--probe of attnctl ablate) needs a causal model, because it "
           "scores the next tokens of repeated random tokens; leave it out",
           escaped(study.open.model.name()));
  }
  return study;
}

StudyState compute_study(OpenStudy& study, Pool& pool, Progress& progress, const Shard& shard,
                         const CheckpointOptions& checkpoint,
                         const std::function<void(const std::string& line)>& note) {
  std::optional<StudyState> resumed = open_checkpoint(checkpoint.path);
  const StudySettings& settings = study.settings;
  const StudyInput input = study.input();
  StudyBeginning beginning = begin_study(input, pool, progress);
  if (resumed) {
    const std::string name = escaped(*checkpoint.path);
    require_same_study(resumed->header(), name, beginning.header, "this command");
    if (note) note(fmt::format("continues {}: {}", name, resumed->done_text()));
  }
  StudyState state = resumed ? std::move(*resumed) : StudyState(std::move(beginning.header));
  Warnings ignored;  // random_twins() repeats the warnings of open_model()
  const std::vector<model::Model> null_models =
      random_twins(input.model, settings.null_models, settings.seed, ignored);
  study.open.encoder.checks = {};  // begin_study() may have read the corpus already
  progress.begin("study", corpus_bytes(settings.corpus), "byte");
  run_study({.input = input,
             .pool = pool,
             .progress = progress,
             .null_models = null_models,
             .frequencies = beginning.frequencies ? &*beginning.frequencies : nullptr,
             .ablation = beginning.ablation ? &*beginning.ablation : nullptr,
             .shard = shard,
             .checkpoint = checkpoint.path,
             .checkpoint_seconds = checkpoint.seconds},
            state);
  progress.end();
  return state;
}

}  // namespace attnctl::study
