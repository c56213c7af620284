#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/patterns/capture.hpp"
#include "base/warnings.hpp"
#include "cli/analyses/results.hpp"
#include "cli/options/analysis_request.hpp"
#include "cli/options/target.hpp"
#include "input/batch.hpp"
#include "tokenizer/vocabulary.hpp"

// What a request of `analyze` or `weights` comes to, before any work is done.
namespace attnctl::cli {

/// What --include asks for, as far as the format can show it. Throws Error(usage) for what needs inputs where
/// there are none, and for what CSV has no table for.
[[nodiscard]] Includes resolve_includes(const AnalysisRequest& request, const Target& target);

/// Positions of --from and --to in each input that has the former; warns of inputs and words that have not.
/// Throws Error(usage) where no input has it.
[[nodiscard]] std::vector<Question> resolve_questions(const AnalysisRequest& request, const Batch& batch,
                                                      Component component, const Vocabulary& vocabulary,
                                                      Warnings& warnings);

/// Throws Error(usage) where something works on one component of a model at a time, or on none, and heads of
/// several are selected.
void check_components(const AnalysisRequest& request, const Includes& includes,
                      std::span<const ComponentHeads> components);

/// The parts of a pass that --include names, in the order of the arrays.
[[nodiscard]] std::vector<Captured> captured_parts(const Includes& includes);

/// Throws Error(limit) for more values than --limit lets a text format have.
void check_values(std::uint64_t values, Format format, const RunOptions& run);

}  // namespace attnctl::cli
