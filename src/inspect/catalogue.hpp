#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/axial.hpp"
#include "analysis/mixing/rollout.hpp"
#include "analysis/patterns/adapters.hpp"
#include "analysis/weights/weights.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "input/words.hpp"
#include "model/model.hpp"
#include "results/results.hpp"
#include "tokenizer/vocabulary.hpp"

// The request of a run, and the values of --include. docs/architecture.md shows how to add an analysis.
namespace attnctl::inspect {

class StoredPatterns;
struct AnalysisRow;

/// The form of the output. Writers use the member of Results with the same name; an HTML page uses tables,
/// pictures and attention.
enum class Form { document, tables, arrays, pictures, text, page };

[[nodiscard]] constexpr bool has_tables(Form form) {
  return form == Form::tables || form == Form::page;
}
[[nodiscard]] constexpr bool has_pictures(Form form) {
  return form == Form::pictures || form == Form::page;
}

/// A parsed --include: what to compute and to output (docs/cli.md).
struct Includes {
  std::vector<const AnalysisRow*> rows;  // in the order of the catalogue, which is that of the output

  [[nodiscard]] bool has(std::string_view name) const;
  /// Adds or removes a value of --include, which must be in the catalogue.
  void set(std::string_view name, bool wanted);
};

/// Order of the heads in the heatmaps of similarities and projection kernels: as in the model, or clustered
/// so that similar heads are adjacent. With `cluster`, the similarities in documents also list the order.
enum class HeadOrder { model, cluster };

constexpr std::size_t kTextRows = 20;  // default maximum number of rows of a table of heads in text
constexpr std::size_t kAllHeads = std::numeric_limits<std::size_t>::max();  // value of --top all

/// What to compute, for which heads, and what to output. Errors name the options of the command line.
struct InspectRequest {
  Includes includes;
  forward::Selection selection;
  Form form = Form::document;
  std::string format = "json";  // name of the format in messages

  // Weights
  analysis::WeightsOptions weights{.directions = 5};
  HeadOrder order = HeadOrder::model;
  std::string similarity = "qk,ov";  // similarities for --include map, separated by commas

  // Patterns
  bool per_input = false;
  std::string from;             // --from: a token, a word or a position; empty if not given
  std::vector<std::string> to;  // --to: words among the keys whose weights are output
  bool draw = false;            // --show: draw the patterns in text
  bool draw_layers = false;     // also draw the mean pattern of each layer
  bool by_word = false;
  analysis::PoolFrom pool_from = analysis::PoolFrom::mean;
  analysis::Weighting weighting = analysis::Weighting::weights;  // for patterns and --from, not for metrics

  // Mixing
  analysis::RolloutOptions rollout;  // for rollout and flow
  std::string rollout_from;          // a token, a word or a position; empty: all positions
  bool output_rank = true;           // contributions: also compute the output with W_O reduced to lower ranks
  std::vector<std::size_t> output_ranks;  // ranks for output_rank; empty: powers of two
  double sink_epsilon = 0.3;  // sinks: a head is a sink at a key if its mean weight on it is above this
  double idle_ratio = 0.01;   // sinks: a head is idle if its write ratio is below this

  // Text and pictures
  bool strip_markers = false;  // show tokens without their word marks

  // Text
  /// Column by which the heads table in text is sorted, or a word of `to` (see sorts_answers); empty: model
  /// order.
  std::string sort;
  std::vector<std::string> columns;  // columns of the heads table; empty: the main metrics
  /// Maximum number of heads in the heads table and in sorted answers (nullopt: kTextRows), of keys per head
  /// for --from (nullopt or kAllHeads: 5 in text, otherwise all), of tokens for logits (nullopt or kAllHeads:
  /// 5), and of pairs per circuit and per kind of composition (nullopt: 5).
  std::optional<std::size_t> top;

  std::uint64_t limit = 50'000'000;  // maximum number of values in a form other than arrays
  std::uint64_t memory = 0;          // bytes; 0: no limit

  /// Returns whether --sort sorts the answers to --from instead of the heads table.
  [[nodiscard]] bool sorts_answers() const { return std::ranges::find(to, sort) != to.end(); }
};

struct InspectSubject {
  const model::Model& model;
  const tokenizer::Vocabulary& vocabulary;
  input::Batch batch = {};                       // empty: the run uses only weights
  std::optional<analysis::AxialGrid> grid = {};  // for axial attention: `batch` comes from make_axial
  /// Where the patterns of `batch` come from instead of a forward pass; null: from a forward pass.
  const StoredPatterns* stored = nullptr;
};

/// What the analyses and the output of a run read.
struct AnalysisInput {
  const InspectRequest& request;
  const model::Model& model;
  const tokenizer::Vocabulary& vocabulary;
  const input::Batch& batch;  // the inputs of the forward pass; can be empty
  const input::Batch& shown;  // described by the results: `batch`, or its words if --by-word is set
  const forward::RunContext& context;
  const forward::Selection& selection = request.selection;
  std::vector<input::WordUnits> units = {};  // words of each sequence; empty unless --by-word
  /// Set before Analysis::finish() is called, if the request includes weights or directions.
  std::optional<analysis::WeightsAnalysis> weights = {};

  [[nodiscard]] const model::ModelConfig& config() const { return model.config(); }
};

/// The heads that the forward pass must compute for an analysis: the selected heads, all heads of the
/// selected layers, or all heads of the model. The observers of an analysis also receive the heads that other
/// analyses need.
enum class HeadsSeen { selected, of_selected_layers, all };

/// An analysis of one run. If the analysis does not support the request, AnalysisRow::make or begin() of an
/// observer throws Error, before the forward pass computes.
class Analysis {
 public:
  /// `input` must outlive this object.
  explicit Analysis(const AnalysisInput& input) : input_(input) {}
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;
  virtual ~Analysis() = default;

  /// Returns the observers of the forward pass over tokens. Empty if the analysis uses only weights.
  [[nodiscard]] virtual std::vector<forward::Observer*> observers() { return {}; }
  [[nodiscard]] virtual HeadsSeen heads_seen() const { return HeadsSeen::selected; }
  /// Returns the number of values (numbers, texts and nulls) of the results in JSON, for --limit and
  /// --memory. It can be larger than that of the results if these depend on ranks or undefined numbers.
  [[nodiscard]] virtual std::uint64_t values() const = 0;
  /// Returns the bytes that finish() needs besides the results and the weights of the selected heads, for
  /// --memory.
  [[nodiscard]] virtual std::uint64_t bytes() const { return 0; }
  /// Returns the results in all forms that the analysis supports. Called once, after the forward pass.
  [[nodiscard]] virtual Results finish() = 0;

 protected:
  const AnalysisInput& input_;
};

/// The components of encoder-decoder models that an analysis supports, one component per run. none:
/// encoder-decoder models are not supported; not_cross: encoder or decoder; each: also cross-attention.
enum class Components { none, not_cross, each };

using MakeAnalysis = std::unique_ptr<Analysis>(const AnalysisInput& input);

/// What a run computes with: a model without inputs, a model with inputs, or patterns from a file.
enum class Given { weights, inputs, patterns };

/// A value of --include.
struct AnalysisRow {
  std::string_view include;  // name in --include
  Given needs;               // the least that a run must have
  bool by_word;              // can run with --by-word; not used if it needs only weights
  bool text;                 // shown in text
  Components components;
  MakeAnalysis* make;                       // null: a part of RunResults, not an Analysis
  std::span<const Definition> definitions;  // of the columns of its tables

  [[nodiscard]] bool of_inputs() const { return needs != Given::weights; }
  [[nodiscard]] bool possible(Given given) const { return given == Given::inputs || given == needs; }
};

/// Returns the names that --include accepts.
[[nodiscard]] std::vector<std::string> include_names(Given given = Given::inputs);

/// Returns the definitions of all tables of `analyze` and `weights`: for each name in --include ("metrics":
/// the heads table), and for "inputs" and "attention_from".
[[nodiscard]] std::vector<NamedDefinitions> definitions();

/// Parses the comma-separated list of --include and returns the values to output in the given form. `given`
/// is false if `list` is the default of --include. Then patterns and directions are left out in text,
/// weights in pictures with inputs, and directions in tables without inputs. Throws Error(usage) if a value
/// is unknown, or if it needs more than `from`.
[[nodiscard]] Includes resolve_includes(const std::string& list, bool given, Given from, Form form);

/// Throws Error(bad_input) if a selected layer has no W_V, because its heads then have no values. `analysis`
/// is the name of the analysis in the error.
void require_values(const AnalysisInput& input, std::string_view analysis);

extern const std::array<Definition, 1> kPatternColumns, kScoreColumns, kQueryColumns, kKeyColumns,
    kValueColumns, kZColumns, kOutputColumns, kRolloutColumns, kFlowColumns;
extern const std::array<Definition, 2> kLargestValueColumns;
extern const std::array<Definition, 3> kWeightColumns, kDirectionColumns, kCircuitColumns, kMixingColumns,
    kRoutingColumns;
extern const std::array<Definition, 4> kCompositionColumns;
extern const std::array<Definition, 5> kLogitColumns, kActivationColumns;
extern const std::array<Definition, 6> kAttentionFromColumns;
extern const std::array<Definition, 8> kInputColumns;
extern const std::array<Definition, 12> kTokenCircuitColumns;
extern const std::array<Definition, 11> kMapColumns, kContributionColumns;
extern const std::array<Definition, 12> kSubspaceColumns;
extern const std::array<Definition, 14> kSinkColumns;

MakeAnalysis make_subspaces, make_composition, make_head_map, make_rollout, make_flow, make_contributions,
    make_mixing, make_routing, make_largest_value, make_sinks, make_activations, make_token_circuits;

}  // namespace attnctl::inspect
