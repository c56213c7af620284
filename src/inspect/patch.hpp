#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "causal/interventions.hpp"
#include "forward/run.hpp"
#include "inspect/open_model.hpp"
#include "results/results.hpp"

namespace attnctl::inspect {

/// A part of a head that a pass takes from another pass.
enum class PatchedPart { z, pattern, value };
[[nodiscard]] std::string_view name_of(PatchedPart part);

/// Two inputs of equal length, whose targets, if any, have equal lengths too, and what to put from one run
/// into the other.
struct PatchRequest {
  input::Sequence clean, corrupt;
  forward::Selection selection;  // the heads whose parts are patched
  std::vector<PatchedPart> parts = {PatchedPart::z};
  bool by_position = false;                         // z only: also patch each position separately
  bool into_clean = false;                          // patch from the corrupt run into the clean one
  std::optional<causal::AnswerTokens> answer = {};  // default: the most probable tokens of both runs
  std::vector<std::pair<model::HeadId, model::HeadId>> paths = {};  // from, to
  std::uint64_t memory = 0;  // limit of the resident memory in bytes; 0: no limit
};

/// The columns of the tables of a patch.
[[nodiscard]] std::span<const Definition> patch_definitions();

/// Runs both inputs, and for each head and part the receiving input again with this part of the other run.
/// The metric is the logit of the right answer minus that of the wrong one at the last token of the input or,
/// in an encoder-decoder model, of its target (or at the mask token). Throws Error(bad_input) if the inputs
/// or their targets differ in length, if the model has no output head, if the metric is equal in both runs,
/// or for a path through a norm, and Error(limit) if more memory is needed than the request allows.
[[nodiscard]] Results patch_heads(const PatchRequest& request, OpenModel& open, forward::RunContext& context);

}  // namespace attnctl::inspect
