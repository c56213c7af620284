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

// The values of --include. A new analysis is one row of the table in catalogue.cpp and one file in this
// folder (docs/architecture.md).
namespace attnctl::inspect {

struct InspectRequest;

/// The form of the output. The caller uses the member of Results of this name.
enum class Form { document, tables, arrays, pictures, text };

/// The input of an analysis.
struct AnalysisInput {
  const InspectRequest& request;
  const Model& model;
  const Vocabulary& vocabulary;
  const Selection& selection;
  const Batch& batch;  // the tokens on which the forward pass runs; empty without inputs
  const Batch& shown;  // the batch that the results describe: `batch`, or its words if --by-word is set
  const std::vector<WordUnits>& units;  // words of each sequence; empty unless --by-word
  /// Set before finish() is called, if the request includes weights.
  const std::optional<WeightsAnalysis>& weights;
  const RunContext& context;

  [[nodiscard]] const ModelConfig& config() const { return model.config(); }
};

/// The heads whose panels an analysis receives: the selected heads, all heads of the selected layers, or all
/// heads of the model.
enum class HeadsSeen { selected, of_selected_layers, all };

/// An analysis of one run. The constructor throws Error if the analysis does not support the request; no work
/// has been done by then.
class Analysis {
 public:
  explicit Analysis(const AnalysisInput& input) : input_(input) {}
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;
  virtual ~Analysis() = default;

  /// Returns the observers of the forward pass over tokens. Empty if the analysis uses only weights.
  [[nodiscard]] virtual std::vector<Observer*> observers() { return {}; }
  /// Returns which heads the forward pass must compute for this analysis.
  [[nodiscard]] virtual HeadsSeen heads_seen() const { return HeadsSeen::selected; }
  /// Returns the number of values in the results, for the checks of --limit and --memory. Analyses with few
  /// values return 0.
  [[nodiscard]] virtual std::uint64_t values() const { return 0; }
  /// Returns the results in every form. Called once, after the forward pass.
  [[nodiscard]] virtual Results finish() = 0;

 protected:
  AnalysisInput input_;
};

/// The components of encoder-decoder models that an analysis supports. An analysis works on one component at
/// a time. none: encoder-decoder models are not supported; not_cross: encoder or decoder; each: encoder,
/// decoder or cross-attention.
enum class Components { none, not_cross, each };

/// An analysis that --include accepts, and its properties.
struct AnalysisRow {
  std::string_view include;  // name in --include
  bool of_inputs;            // needs a forward pass
  bool by_word;              // supports --by-word
  bool tables;               // has tables
  Components components;
  std::unique_ptr<Analysis> (*make)(const AnalysisInput& input);
};

/// A parsed --include: what to compute and to output (docs/cli.md).
struct Includes {
  bool metrics = false, patterns = false, scores = false, queries = false, keys = false, values = false,
       z = false, output = false, logits = false, weights = false, directions = false, circuits = false;
  std::vector<const AnalysisRow*> analyses;  // in the order of their sections in the output

  /// Returns whether any of the values needs a forward pass.
  [[nodiscard]] bool of_inputs() const;
};

/// Returns all names that --include accepts, separated by commas.
[[nodiscard]] std::string include_names();

/// Parses the comma-separated list of --include. Throws Error(usage) with the name of an unknown value.
[[nodiscard]] Includes parse_includes(const std::string& list);

/// Parses `list` and returns the values to output in the given form. `given` is false if `list` is the
/// default of --include. Then patterns are left out in text and pictures, and directions in tables
/// without inputs. Throws Error(usage) if a value needs inputs and there are none, or if the form is tables
/// and there is no table for the value.
[[nodiscard]] Includes resolve_includes(const std::string& list, bool given, bool with_inputs, Form form);

/// Throws Error(bad_input) if a selected layer has no values (W_V); its heads then have no output. `analysis`
/// is the name of the analysis in the error.
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
