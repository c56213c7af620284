#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "base/progress.hpp"
#include "causal/interventions.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"
#include "study/corpus.hpp"
#include "tokenizer/vocabulary.hpp"

// What the measures `ablation` and `probe_ablation` remove, and what they put in its place.
namespace attnctl::study {

struct StudyInput;

/// Heads and MLPs that are removed together.
struct RemovedSet {
  std::string name;  // "2.1", "2.1+2.3", "layer 2", "mlp 2", "keep 4", or the name of a group
  std::string kind;  // head, pair, layer, mlp, group, keep or random
  std::vector<model::HeadId> heads;
  std::vector<std::uint64_t> mlps;  // layers
  std::int64_t null_of = -1;        // of a random set, the index of the set that it is compared with
  std::string head_names = {};      // "2.1+2.3"; empty without heads

  auto parts() { return std::tie(name, kind, null_of, head_names); }
};

/// A group of heads with a name, from --groups.
struct NamedHeads {
  std::string name;
  std::vector<model::HeadId> heads;
};

/// What takes the place of a removed value.
enum class Replacement {
  zero,
  mean,     // its mean over a corpus
  resample  // its value in another input of the corpus
};

[[nodiscard]] inline std::string_view name_of(Replacement replacement) {
  return replacement == Replacement::zero ? "zero" : replacement == Replacement::mean ? "mean" : "resample";
}

/// The settings of an ablation.
struct AblationSettings {
  Replacement replacement = Replacement::mean;
  bool by_position = false;           // for `mean`: one mean for each position
  std::vector<CorpusFile> mean_from;  // for `mean` and `resample`: the corpus; empty: that of the study
  std::vector<RemovedSet> sets;       // made by removed_sets()
  double mask_rate = 0.15;            // share of tokens that are masked in models that predict masked tokens
  std::optional<causal::AnswerTokens> answer;
};

/// Which sets are removed.
struct SetRequest {
  std::vector<std::string> kinds;    // of head, pair, layer, mlp, group, keep
  std::vector<NamedHeads> groups;    // for `group`
  std::vector<model::HeadId> order;  // for `keep`: the selected heads, the most important one first
  std::size_t steps = 10;            // for `keep`: the number of sets, from none kept to all but one step
  std::size_t null_sets = 10;        // random sets for each layer, group and step
  std::uint64_t seed = 0;
};

/// Returns the sets of a request for the selected heads. The random sets of a set have the same number of
/// heads in each of its layers; if there are too few such sets, the same number of heads in its layers
/// together; if there are still too few, in all layers. Throws Error(limit) if there
/// are more than kMostSets.
[[nodiscard]] std::vector<RemovedSet> removed_sets(const model::ModelConfig& config,
                                                   const forward::Selection& selection,
                                                   const SetRequest& request);
inline constexpr std::size_t kMostSets = 100'000;

/// The values and the tokens that an ablation needs in addition to the model.
struct AblationData {
  const AblationSettings* settings = nullptr;  // borrowed
  std::uint64_t seed = 0;
  bool next_token = true;                       // the model predicts the next token; otherwise masked tokens
  std::optional<std::int64_t> mask = {};        // the mask token of a model that predicts masked tokens
  std::vector<double> mean_output = {};         // causal::mean_output_row()
  std::vector<OwnedMatrix<float>> mean_z = {};  // for `mean`: [layers][1 or positions, heads * v]
  std::vector<OwnedMatrix<float>> mean_mlp = {};  // for `mean`: [layers][1 or positions, d_model], or empty
  std::vector<input::Sequence> donors = {};       // for `resample`: a random sample of the corpus

  [[nodiscard]] bool removes_mlps() const;
};

/// Computes the means, or draws the donors, from AblationSettings::mean_from; if it is empty, from the corpus
/// of the study. Throws Error(bad_input) if the model has no output head, or if it predicts masked tokens but
/// its vocabulary has no mask token, and Error(limit) if a block needs more memory than StudyInput::memory.
[[nodiscard]] AblationData prepare_ablation(const StudyInput& input, Pool& pool, Progress& progress);

}  // namespace attnctl::study
