#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/weights/weights.hpp"
#include "cli/options/analysis_request.hpp"
#include "cli/session.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "input/words.hpp"
#include "results/results.hpp"

// The registry of further analyses: the values of --include other than metrics, patterns, arrays and the
// similarity of heads. A new analysis is a row of the table in analysis_part.cpp and a file part_NAME.cpp in
// this folder.
namespace attnctl::cli {

/// The input of an analysis.
struct PartInput {
  const AnalysisRequest& request;
  OpenModel& open;
  const Selection& selection;
  const Batch& batch;  // batch of tokens, as the forward pass runs on it; empty for `weights`
  const Batch& shown;  // batch that the results describe: `batch`, or its words under --by-word
  const std::vector<WordUnits>& units;            // words of each sequence, under --by-word
  const std::optional<WeightsAnalysis>& weights;  // available in finish(), if requested
  Session& session;
};

/// The heads that an analysis receives: the selected heads, all heads of the selected layers, or all heads.
enum class HeadsSeen { selected, of_selected_layers, all };

/// One analysis in one run. The constructor throws Error for unsupported requests, before any work.
class AnalysisPart {
 public:
  AnalysisPart() = default;
  AnalysisPart(const AnalysisPart&) = delete;
  AnalysisPart& operator=(const AnalysisPart&) = delete;
  virtual ~AnalysisPart() = default;

  /// Returns the observers of the forward pass over tokens. Empty if the analysis needs the weights only.
  [[nodiscard]] virtual std::vector<Observer*> observers() { return {}; }
  /// Returns the heads that the forward pass must compute for this analysis, independent of the selection.
  [[nodiscard]] virtual HeadsSeen heads_seen() const { return HeadsSeen::selected; }
  /// Returns the number of values in the results, for --limit and --memory. Analyses with few
  /// values return 0.
  [[nodiscard]] virtual std::uint64_t values() const { return 0; }
  /// Returns the results. Called once, after the forward pass.
  [[nodiscard]] virtual Results finish() = 0;
};

/// The components of a model that an analysis supports. It works on one component at a time.
enum class Stacks {
  one,        // none of them: only models with one stack
  not_cross,  // components with self-attention
  each
};

struct PartRow {
  std::string_view include;  // name in --include
  bool of_inputs = false;    // needs a forward pass
  bool by_word = false;      // supports --by-word
  bool tables = false;       // writes tables as CSV
  Stacks stacks = Stacks::one;
  std::unique_ptr<AnalysisPart> (*make)(const PartInput& input) = nullptr;
};

/// Returns all rows, in the order of their sections in the output.
[[nodiscard]] std::span<const PartRow> part_rows();

/// Throws Error(bad_input) if a selected layer has no values (W_V), so that its heads write no output.
void require_values(const PartInput& input, std::string_view analysis);

std::unique_ptr<AnalysisPart> make_rollout(const PartInput& input);
std::unique_ptr<AnalysisPart> make_subspaces(const PartInput& input);
std::unique_ptr<AnalysisPart> make_composition(const PartInput& input);
std::unique_ptr<AnalysisPart> make_map(const PartInput& input);
std::unique_ptr<AnalysisPart> make_flow(const PartInput& input);
std::unique_ptr<AnalysisPart> make_contributions(const PartInput& input);
std::unique_ptr<AnalysisPart> make_mixing(const PartInput& input);
std::unique_ptr<AnalysisPart> make_routing(const PartInput& input);

}  // namespace attnctl::cli
