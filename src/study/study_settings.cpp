#include "study/study_settings.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "analysis/model_summary.hpp"
#include "base/text.hpp"
#include "checkpoint/source.hpp"
#include "study/run_study.hpp"

namespace attnctl {
namespace {

constexpr const char* kStateFormat = "attnctl.study.state/3";

/// Identifies the corpus by the size and the hash of each file, independent of its path.
std::string corpus_identity(const CorpusOptions& corpus, Pool& pool) {
  std::string text;
  for (const CorpusFile& file : corpus.files) {
    if (file.path == "-") return "standard input";
    const std::uint64_t hash = file_hash(file.path, pool);
    text += fmt::format("{}{} bytes {}", text.empty() ? "" : ", ", std::filesystem::file_size(file.path),
                        hash_text(hash));
  }
  return text;
}

StudyIdentity study_identity(const StudySettings& settings, const Model& model, Pool& pool) {
  const auto or_none = [](const std::optional<std::size_t>& number) {
    return number ? std::to_string(*number) : std::string("none");
  };
  const auto yes_or_no = [](bool value) { return value ? "true" : "false"; };
  std::string heads;
  for (const HeadId head : settings.selection.heads)
    heads += (heads.empty() ? "" : ",") + head_name(model.config(), head);
  std::string measures;
  for (const MeasureRow* const row : settings.measures)
    measures += fmt::format("{}{}/{}", measures.empty() ? "" : ",", row->name, row->version);
  std::string frequencies = settings.needs_frequencies() ? "of the corpus" : "none";
  if (settings.frequencies) frequencies = hash_text(file_hash(*settings.frequencies, pool));
  return {{"state", kStateFormat},
          {"config", hash_text(content_hash(model.source().config_text))},
          {"weights", hash_text(weights_hash(model, pool))},
          {"heads", heads},
          {"measures", measures},
          {"corpus", corpus_identity(settings.corpus, pool)},
          {"batch_tokens", std::to_string(settings.corpus.batch_tokens)},
          {"max_length", or_none(settings.corpus.max_length)},
          {"stride", or_none(settings.corpus.stride)},
          {"seed", std::to_string(settings.seed)},
          {"skip_bad", yes_or_no(settings.corpus.skip_bad)},
          {"fold_subtypes", yes_or_no(settings.fold_subtypes)},
          {"null_model", std::to_string(settings.null_models)},
          {"null_shuffle", std::to_string(settings.null_shuffles)},
          {"frequencies", frequencies}};
}

/// Reads the file of frequencies, or counts the tokens of the corpus.
TokenFrequencies study_frequencies(const StudyInput& input, Progress& progress) {
  const StudySettings& settings = input.settings;
  if (settings.frequencies) {
    return read_frequencies(*settings.frequencies, input.vocabulary,
                            input.model.config().embedding.vocabulary);
  }
  progress.begin("frequencies", corpus_bytes(settings.corpus));
  CorpusBlocks blocks(settings.corpus, input.model, input.vocabulary, input.encoder);
  TokenFrequencies counted = count_tokens(blocks, progress);
  progress.end();
  return counted;
}

}  // namespace

bool StudySettings::needs_frequencies() const {
  return std::ranges::any_of(measures, &MeasureRow::needs_frequencies);
}

std::uint64_t corpus_bytes(const CorpusOptions& corpus) {
  std::uint64_t bytes = 0;
  for (const CorpusFile& file : corpus.files)
    bytes += file.path == "-" ? 0 : std::filesystem::file_size(file.path);
  return bytes;
}

StudyHeader plain_header(const StudySettings& settings, const Model& model) {
  StudyHeader header;
  header.shape = shape_of(settings.selection, model.config(), settings.seed);
  header.shape.fold_subtypes = settings.fold_subtypes;
  header.measures = settings.measures;
  header.null_models = settings.null_models;
  header.null_shuffles = settings.null_shuffles;
  return header;
}

StudyBeginning begin_study(const StudyInput& input, Pool& pool, Progress& progress) {
  const StudySettings& settings = input.settings;
  StudyBeginning beginning;
  pool.run(2, [&](std::size_t task, std::size_t /*worker*/) {
    if (task == 0) {
      Pool alone(1);
      StudyHeader& header = beginning.header;
      header = plain_header(settings, input.model);
      header.identity = study_identity(settings, input.model, alone);
      header.model = model_record(input.model);
      header.model_path = input.model.name();
      for (const CorpusFile& file : settings.corpus.files) header.files.push_back(file.path.string());
      load_weights(input.model, settings.selection);
    } else if (settings.needs_frequencies()) {
      beginning.frequencies = study_frequencies(input, progress);
    }
  });
  return beginning;
}

}  // namespace attnctl
