#pragma once

#include <cstddef>
#include <optional>

#include "model/families/presets.hpp"
#include "model/model.hpp"
#include "results/results.hpp"

// Properties of a model that need no forward pass: architecture, parameters, FLOPs and memory.
namespace attnctl::analysis {

/// Returns the name and sizes of the model: the record "model" of output documents.
[[nodiscard]] Record model_record(const model::Model& model);

/// The subject of a summary: a model, or a configuration without weights.
struct SummarySubject {
  const model::Model* model = nullptr;  // null: only the configuration
  const model::Preset* preset = nullptr;
  model::ModelConfig config;
};

struct SummaryRequest {
  /// Tokens per input. Default: 512, or the number of positions of the model if that is smaller.
  std::optional<std::size_t> length;
  std::size_t batch = 1;
  bool shapes = false;
  bool tensors = false;
  bool families = false;
};

/// Returns the definitions of the columns of the tables of a summary.
[[nodiscard]] std::vector<NamedDefinitions> summary_definitions();

/// Returns the summary of the subject, if there is one, and the families, if asked.families is set.
[[nodiscard]] Results model_summary(const std::optional<SummarySubject>& subject,
                                    const SummaryRequest& asked);

}  // namespace attnctl::analysis
