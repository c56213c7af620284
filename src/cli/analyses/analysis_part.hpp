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

// The registry of analyses: what --include names beyond metrics, patterns, arrays and the similarity of
// heads. A new analysis is a row of the table in analysis_part.cpp and a file part_NAME.cpp beside it.
namespace attnctl::cli {

/// What an analysis works on.
struct PartInput {
  const AnalysisRequest& request;
  OpenModel& open;
  const Selection& selection;
  const Batch& batch;                   // of tokens, as the pass runs on it; empty for `weights`
  const Batch& shown;                   // what results are about: the same, or its words under --by-word
  const std::vector<WordUnits>& units;  // under --by-word: the words of each sequence
  const std::optional<WeightsAnalysis>& weights;  // at finish(), where it was asked for
  Session& session;
};

/// The heads that a pass shows: the selected ones, all of their layers, or all of all layers.
enum class HeadsSeen { selected, of_selected_layers, all };

/// One analysis of one run. What it cannot do is refused when it is made, before any work.
class AnalysisPart {
 public:
  AnalysisPart() = default;
  AnalysisPart(const AnalysisPart&) = delete;
  AnalysisPart& operator=(const AnalysisPart&) = delete;
  virtual ~AnalysisPart() = default;

  /// What watches the pass, on tokens; none: weights alone are enough.
  [[nodiscard]] virtual std::vector<Observer*> observers() { return {}; }
  /// Which heads the pass must show it, whichever were selected.
  [[nodiscard]] virtual HeadsSeen heads_seen() const { return HeadsSeen::selected; }
  /// How many numbers it gives, for --limit and --memory, where they may be many.
  [[nodiscard]] virtual std::uint64_t values() const { return 0; }
  /// The results, once, after the pass.
  [[nodiscard]] virtual Results finish() = 0;
};

/// Which components of a model with several an analysis takes, one at a time.
enum class Stacks {
  one,        // none: models with one stack alone
  not_cross,  // those of self-attention
  each
};

struct PartRow {
  std::string_view include;  // its name in --include
  bool of_inputs = false;    // needs a forward pass
  bool by_word = false;      // means something under --by-word
  bool tables = false;       // gives tables for CSV
  Stacks stacks = Stacks::one;
  std::unique_ptr<AnalysisPart> (*make)(const PartInput& input) = nullptr;
};

/// All rows, in the order of their sections.
[[nodiscard]] std::span<const PartRow> part_rows();

/// Throws Error(bad_input) where a selected layer has no values, so that heads write nothing.
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
