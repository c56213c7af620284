#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/patterns/capture.hpp"
#include "base/warnings.hpp"
#include "inspect/run_results.hpp"
#include "cli/options/analysis_request.hpp"
#include "cli/options/target.hpp"
#include "input/batch.hpp"
#include "tokenizer/vocabulary.hpp"

// Checks and resolves a request of `analyze` or `weights` before any work.
namespace attnctl::cli {

/// Returns the values of --include that the format can show. Throws Error(usage) if a value needs inputs and
/// there are none, or if CSV has no table for it.
[[nodiscard]] Includes resolve_includes(const AnalysisRequest& request, const Target& target);

/// Returns the positions of --from and --to for each input that contains --from. Adds warnings for inputs
/// without --from and for words of --to that an input does not contain. Throws Error(usage) if no input
/// contains --from.
[[nodiscard]] std::vector<Question> resolve_questions(const AnalysisRequest& request, const Batch& batch,
                                                      Component component, const Vocabulary& vocabulary,
                                                      Warnings& warnings);

/// Throws Error(usage) if heads of several components are selected and an option works on one component only,
/// or if an analysis does not support the selected component.
void check_components(const AnalysisRequest& request, const Includes& includes,
                      std::span<const ComponentHeads> components);

/// Returns the arrays of the forward pass that --include names, in the order of the output.
[[nodiscard]] std::vector<Captured> captured_parts(const Includes& includes);

/// Throws Error(limit) if a text format would have more than --limit values.
void check_values(std::uint64_t values, Format format, const RunOptions& run);

}  // namespace attnctl::cli
