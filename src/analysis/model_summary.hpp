#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "model/families/presets.hpp"
#include "model/model.hpp"
#include "results/results.hpp"

// Properties of a model that need no run: architecture, parameters, FLOPs and memory.
namespace attnctl {

/// Returns the record "model" of every document: the identity and sizes of the model.
[[nodiscard]] Record model_record(const Model& model);

/// A model, or a configuration without weights.
struct SummarySubject {
  const Model* model = nullptr;  // null: only the configuration
  const Preset* preset = nullptr;
  ModelConfig config;
};

struct SummaryRequest {
  std::optional<std::size_t> length;  // tokens; default: 512, or the number of positions if it is smaller
  std::size_t batch = 1;
  bool shapes = false;
  bool tensors = false;
  bool families = false;
};

/// Returns the summary of a subject, if there is one, and the families if they are asked for.
[[nodiscard]] Results model_summary(const std::optional<SummarySubject>& subject,
                                    const SummaryRequest& asked);

}  // namespace attnctl
