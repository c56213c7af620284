#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/head_axes.hpp"
#include "analysis/weights/weights.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "input/words.hpp"
#include "results/results.hpp"
#include "tokenizer/vocabulary.hpp"

// Everything that --include accepts. A new analysis is one row of the table in catalogue.cpp and one file in
// this folder (docs/architecture.md).
namespace attnctl::inspect {

struct InspectRequest;

/// The member of Results that the caller uses.
enum class Form { document, tables, arrays, pictures, text };

/// The input of an analysis.
struct AnalysisInput {
  const InspectRequest& request;
  const Model& model;
  const Vocabulary& vocabulary;
  const Selection& selection;
  const Batch& batch;  // batch of tokens, as the forward pass runs on it; empty without inputs
  const Batch& shown;  // batch that the results describe: `batch`, or its words under --by-word
  const std::vector<WordUnits>& units;            // words of each sequence, under --by-word
  const std::optional<WeightsAnalysis>& weights;  // available in finish(), if requested
  const RunContext& context;

  [[nodiscard]] const ModelConfig& config() const { return model.config(); }
};

/// The heads that an analysis receives: the selected heads, all heads of the selected layers, or all heads.
enum class HeadsSeen { selected, of_selected_layers, all };

/// One analysis in one run. The constructor throws Error for unsupported requests, before any work.
class Analysis {
 public:
  explicit Analysis(const AnalysisInput& input) : input_(input) {}
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;
  virtual ~Analysis() = default;

  /// Returns the observers of the forward pass over tokens. Empty if the analysis needs the weights only.
  [[nodiscard]] virtual std::vector<Observer*> observers() { return {}; }
  /// Returns the heads that the forward pass must compute for this analysis, independent of the selection.
  [[nodiscard]] virtual HeadsSeen heads_seen() const { return HeadsSeen::selected; }
  /// Returns the number of values in the results, for --limit and --memory. Analyses with few
  /// values return 0.
  [[nodiscard]] virtual std::uint64_t values() const { return 0; }
  /// Returns the results in all forms. Called once, after the forward pass.
  [[nodiscard]] virtual Results finish() = 0;

 protected:
  AnalysisInput input_;
};

/// The components of an encoder and a decoder that an analysis supports, one at a time.
enum class Components { none, not_cross, each };

/// One analysis in the catalogue.
struct AnalysisRow {
  std::string_view include;  // name in --include
  bool of_inputs;            // needs a forward pass
  bool by_word;              // supports --by-word
  bool tables;               // has tables for CSV
  Components components;
  std::unique_ptr<Analysis> (*make)(const AnalysisInput& input);
};

/// The values of --include: what to compute and show (docs/cli.md).
struct Includes {
  bool metrics = false, patterns = false, scores = false, queries = false, keys = false, values = false,
       z = false, output = false, logits = false, weights = false, directions = false, circuits = false;
  std::vector<const AnalysisRow*> analyses;  // in the order of their sections in the output

  /// Returns whether any of them needs a forward pass.
  [[nodiscard]] bool of_inputs() const;
};

/// Returns all names that --include accepts, separated by commas.
[[nodiscard]] std::string include_names();

/// Parses a list for --include. Throws Error(usage) that names the unknown word.
[[nodiscard]] Includes parse_includes(const std::string& list);

/// Returns the values of --include that the form can show. `given` is false for the default list, from which
/// values that the form cannot show are left out. Throws Error(usage) if a value needs inputs and there are
/// none, or if CSV has no table for it.
[[nodiscard]] Includes resolve_includes(const std::string& list, bool given, bool with_inputs, Form form);

/// Throws Error(bad_input) if a selected layer has no values (W_V), so that its heads write no output.
void require_values(const AnalysisInput& input, std::string_view analysis);

std::unique_ptr<Analysis> make_subspaces(const AnalysisInput& input);
std::unique_ptr<Analysis> make_composition(const AnalysisInput& input);
std::unique_ptr<Analysis> make_head_map(const AnalysisInput& input);
std::unique_ptr<Analysis> make_rollout(const AnalysisInput& input);
std::unique_ptr<Analysis> make_flow(const AnalysisInput& input);
std::unique_ptr<Analysis> make_contributions(const AnalysisInput& input);
std::unique_ptr<Analysis> make_mixing(const AnalysisInput& input);
std::unique_ptr<Analysis> make_routing(const AnalysisInput& input);
std::unique_ptr<Analysis> make_largest_value(const AnalysisInput& input);

}  // namespace attnctl::inspect
