// Implements study() and compare() of the public interface.

#include "attnctl/study.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "api/parts.hpp"
#include "attnctl/compare.hpp"
#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/files/output_file.hpp"
#include "base/text.hpp"
#include "input/text_input.hpp"
#include "study/ablation.hpp"
#include "study/compare_models.hpp"
#include "study/open_study.hpp"

namespace attn {

namespace {

/// Returns an input as a line of JSON Lines. Throws Error(bad_input) if a text is not UTF-8.
std::string json_line(const Input& input, std::size_t number) {
  for (const std::string* const text :
       {&input.text, &input.target_text, &input.id, input.text_pair ? &*input.text_pair : &input.text}) {
    if (core::find_ill_formed_utf8(*text))
      core::fail(Status::bad_input, "input {}: the text is not UTF-8", number);
  }
  nlohmann::ordered_json object;
  if (input.ids.empty()) {
    object["text"] = input.text;
    if (input.text_pair) object["text_pair"] = *input.text_pair;
    if (!input.key_visible.empty())
      core::fail(Status::usage, "input {}: a key mask of a study needs ids; give ids", number);
  } else {
    object["ids"] = input.ids;
    if (!input.type_ids.empty()) object["token_type_ids"] = input.type_ids;
    if (!input.key_visible.empty()) object["mask"] = input.key_visible;
  }
  if (!input.target_ids.empty()) {
    object["target_ids"] = input.target_ids;
  } else if (!input.target_text.empty()) {
    object["target"] = input.target_text;
  }
  if (!input.id.empty()) object["id"] = input.id;
  return object.dump() + '\n';
}

/// A file in memory that has the inputs of a corpus as JSON Lines, because a study reads its corpus several
/// times from files.
class InputsFile {
 public:
  explicit InputsFile(const std::vector<Input>& inputs) : file_(::memfd_create("inputs", MFD_CLOEXEC)) {
    std::string text;
    for (std::size_t i = 0; i < inputs.size(); ++i) text += json_line(inputs[i], i);
    std::string_view left = text;
    while (!left.empty() && file_.number() >= 0) {
      const ssize_t count = ::write(file_.number(), left.data(), left.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      left.remove_prefix(static_cast<std::size_t>(count));
    }
    if (!left.empty()) core::fail_with_errno("inputs", "write the corpus to memory", errno);
  }
  [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", file_.number()); }

 private:
  core::Descriptor file_;
};

/// The files of a corpus, which exist as long as this object.
class CorpusFiles {
 public:
  explicit CorpusFiles(const Corpus& corpus) {
    if (corpus.files.empty() == corpus.inputs.empty())
      core::fail(Status::usage, "the corpus has {}; give either files or inputs",
                 corpus.files.empty() ? "no files and no inputs" : "files and inputs");
    for (const std::string& path : corpus.files) {
      if (path == "-") core::fail(Status::usage, "the corpus cannot be standard input; give a file");
      files_.push_back({path, core::input::format_of_file(path)});
    }
    if (corpus.inputs.empty()) return;
    inputs_.emplace(corpus.inputs);
    files_.push_back({inputs_->path(), core::input::InputFormat::jsonl});
  }

  [[nodiscard]] const std::vector<core::study::CorpusFile>& list() const { return files_; }

  /// Calls `work`. Errors that name the file in memory name the inputs instead.
  template <typename Work>
  auto named(const Work& work) const {
    try {
      return work();
    } catch (const Error& error) {
      if (!inputs_) throw;
      std::string message = error.what();
      const std::string path = inputs_->path();
      for (std::size_t at = 0; (at = message.find(path, at)) != std::string::npos;)
        message.replace(at, path.size(), "inputs");
      throw Error(error.status(), message);
    }
  }

 private:
  std::vector<core::study::CorpusFile> files_;
  std::optional<InputsFile> inputs_;
};

core::study::StudyRequest request_of(const StudyOptions& options,
                                     const std::vector<core::study::CorpusFile>& files) {
  core::study::StudyRequest request{.measures = fmt::format("{}", fmt::join(options.measures, ",")),
                                    .causal = options.causal,
                                    .batch_tokens = options.batch_tokens,
                                    .heads = {},
                                    .settings = {}};
  std::vector<std::string> heads;
  for (const Head& head : options.run.heads) heads.push_back(to_string(head));
  request.heads.heads = fmt::format("{}", fmt::join(heads, ","));
  core::study::StudySettings& settings = request.settings;
  settings.corpus.files = files;
  settings.corpus.max_length = options.max_length;
  settings.corpus.stride = options.stride;
  settings.corpus.skip_bad = options.skip_bad;
  settings.seed = options.seed;
  settings.fold_subtypes = options.fold_subtypes;
  settings.null_models = options.null_models;
  settings.null_shuffles = options.null_shuffles;
  if (!options.frequencies.empty()) settings.frequencies = options.frequencies;
  return request;
}

/// Returns the model for one call: it shares the weights, but encodes texts by itself.
core::inspect::OpenModel separate(const Model& model) {
  Model::Parts& parts = model.parts();
  const std::lock_guard lock(parts.encoding);
  return {parts.open.model, parts.open.vocabulary, parts.open.encoder.separate()};
}

core::study::OpenStudy open_study(const Model& model, const core::study::StudyRequest& request,
                                  core::Warnings& warnings) {
  const auto measures = core::study::requested_measures(request, warnings);
  core::study::OpenStudy study = core::study::open_study(request, measures, separate(model), warnings);
  core::study::StudySettings& settings = study.settings;
  if (settings.removes_heads()) {
    settings.ablation.sets =
        core::study::removed_sets(study.open.model.config(), settings.selection,
                                  {.kinds = {"head"}, .groups = {}, .order = {}, .seed = settings.seed});
  }
  return study;
}

void check_lengths(const StudyOptions& options) {
  const auto positive = [](const std::optional<std::size_t>& value, std::string_view name) {
    if (value == std::size_t{0}) core::fail(Status::usage, "{}: got 0, need at least 1", name);
  };
  positive(options.max_length, "max_length");
  positive(options.stride, "stride");
  positive(options.batch_tokens, "batch_tokens");
  if (options.stride && options.max_length && *options.stride > *options.max_length)
    core::fail(Status::usage, "stride: got {}, need at most max_length {}", *options.stride,
               *options.max_length);
}

}  // namespace

Results study(const Model& model, const Corpus& corpus, const StudyOptions& options) {
  check_lengths(options);
  const CorpusFiles files(corpus);
  core::Warnings& warnings = model.parts().warnings;
  CallWorkers workers(options.run);
  return files.named([&] {
    core::study::OpenStudy study = open_study(model, request_of(options, files.list()), warnings);
    std::optional<core::OutputFile> state_file;
    if (!options.state.empty()) state_file.emplace(options.state);
    core::study::CheckpointOptions checkpoint;
    if (!options.checkpoint.empty()) checkpoint.path = options.checkpoint;
    const core::study::StudyState state =
        core::study::compute_study(study, workers.pool, workers.progress, {}, checkpoint);
    core::check_mapped_files();
    if (state_file) {
      state.write(*state_file);
      state_file->commit();
    }
    state.check_data(!options.measures.empty(), warnings);
    for (const core::Warning& warning : state.warnings())
      warnings.add(warning.code, warning.message, warning.count);
    return public_tables(core::study::study_results(state, workers.pool).tables);
  });
}

Results compare(const Model& a, const Model& b, const CompareOptions& options) {
  CallWorkers workers(options.study.run);
  const core::study::StudyRequest request = request_of(options.study, {});
  const core::inspect::OpenModel first = separate(a), second = separate(b);
  const core::Results results = core::study::compare_weights(
      first, second, core::inspect::select_heads(request.heads, first.model.config()),
      {.match = options.match, .seed = options.study.seed},
      {workers.pool, workers.progress, a.parts().warnings});
  core::check_mapped_files();
  return public_tables(results.tables);
}

Results compare(const Model& a, const Model& b, const Corpus& corpus, const CompareOptions& options) {
  check_lengths(options.study);
  const CorpusFiles files(corpus);
  CallWorkers workers(options.study.run);
  core::Warnings& warnings = a.parts().warnings;
  return files.named([&] {
    const core::study::StudyRequest request = request_of(options.study, files.list());
    core::Warnings repeated;
    (void)open_study(b, request, repeated);  // fails before the first model is computed
    std::vector<core::study::StudyState> states;
    for (const Model* const model : {&a, &b}) {
      core::study::OpenStudy study = open_study(*model, request, warnings);
      if (options.study.measures.empty()) core::study::keep_comparable_measures(study.settings);
      states.push_back(core::study::compute_study(study, workers.pool, workers.progress));
    }
    core::study::require_same_study(states[1].header(), core::escaped(b.info().name), states[0].header(),
                                    core::escaped(a.info().name), true);
    core::study::OpenStudy first = open_study(a, request, repeated),
                           second = open_study(b, request, repeated);
    const core::Results results = core::study::compare_states(
        states, !options.study.measures.empty(), {.match = options.match, .seed = options.study.seed},
        {workers.pool, workers.progress, warnings}, core::study::StudyPair{first, second});
    core::check_mapped_files();
    return public_tables(results.tables);
  });
}

}  // namespace attn
