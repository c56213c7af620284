#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/axial.hpp"
#include "analysis/patterns/distance_profile.hpp"
#include "analysis/patterns/temperature.hpp"
#include "analysis/weights/circuit.hpp"
#include "base/error.hpp"
#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"
#include "reference/reference.hpp"
#include "results/results.hpp"

// The experiments: for each one its options, the functions that run it, and the types of its proofs and
// measurements. docs/experiments.md defines the columns of the rows and the numbers of the summary.
namespace attnctl::textbook {

/// How a chart is drawn: as lines over linear or logarithmic axes, or as bars.
enum class Drawing { lines, log_x, log_y, log_log, bars };

/// The results of one textbook experiment. The numbers do not depend on the number of threads.
struct ExperimentResult {
  std::string name;
  std::uint64_t seed = 0;
  std::string x = {}, x_axis = {};  // of the charts: the column of the x axis, and the label of this axis
  Record parameters = {};
  Table rows = {};
  Record summary = {};
  std::string conclusion = {};  // sentences about the result of this run, for the text page
  std::vector<Chart> charts = {};
  Table drawn = {};  // the table that the charts show; if it has no columns, the charts show `rows`
  std::vector<View> heatmaps = {};         // pictures that follow the charts
  std::vector<std::string> subtitle = {};  // lines below the titles of charts and heatmaps

  /// Adds a chart of the columns `y`, whose axis has the label `y_axis`.
  void add_chart(std::string title, std::vector<std::string> y, std::string y_axis,
                 Drawing drawing = Drawing::lines) {
    const bool both = drawing == Drawing::log_log;
    charts.push_back({std::move(title), x, std::move(y), x_axis, std::move(y_axis),
                      both || drawing == Drawing::log_x, both || drawing == Drawing::log_y,
                      drawing == Drawing::bars});
  }
};

/// Converts the result to a document, tables, text and pictures. The text ends with the conclusion and the
/// meanings of the columns and of the names in the summary. It contains the charts only if `with_charts` is
/// true.
[[nodiscard]] Results results_of(const ExperimentResult& result, bool with_charts);

/// Returns the definitions of the columns of each experiment, and of the names in its summary. `where` is the
/// name of the experiment.
[[nodiscard]] std::vector<NamedDefinitions> definitions();

// --- scaling: why scores are divided by sqrt(d_k) (Vaswani et al. 2017, section 3.2.1)

struct ScalingOptions {
  std::vector<std::size_t> d_k = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  std::size_t keys = 64;  // keys per query
  /// The number of queries for each d_k is components / d_k, at least 2048, in whole blocks of 16 queries.
  std::size_t components = 1 << 18;
  std::uint64_t seed = 0;
};

/// Measures attention rows for queries and keys with independent normal components of unit variance. Returns
/// one table row for each d_k.
[[nodiscard]] ExperimentResult scaling_experiment(const ScalingOptions& options, Pool& pool);

/// Returns one table row for each element of `heads`, which are heads of a trained model.
[[nodiscard]] ExperimentResult scaling_of_model(const model::ModelConfig& config,
                                                std::span<const analysis::HeadTemperature> heads);

/// Returns the Frobenius norm of the softmax Jacobian at the softmax output p: |diag(p) - p p^T|_F, computed
/// as sqrt(sum p^2 - 2 sum p^3 + (sum p^2)^2).
[[nodiscard]] double softmax_jacobian_norm(std::span<const double> p);

// --- gradients: through one self-attention layer with normal input, or through a trained model

/// The entries of W_Q, W_K, W_V and W_O are normal with variance 1/d. The loss is a random linear function of
/// the layer's output Y [n, d]: L = sum of Y_ij G_ij with normal entries G_ij, so dL/dY = G.
struct GradientsOptions {
  std::size_t n = 16;
  std::size_t d = 64;
  std::size_t heads = 4;         // must divide d; d_value = d / heads
  std::vector<std::size_t> d_k;  // empty: only d / heads
  std::size_t checks = 64;       // number of entries of each gradient that are checked, evenly spaced
  std::uint64_t seed = 0;
};

/// The weights of one head, in the row-vector convention.
struct HeadMatrices {
  OwnedMatrix<double> query, key;  // [d, k]
  OwnedMatrix<double> value;       // [d, v]
  OwnedMatrix<double> output;      // [v, d]
};

/// The gradient dL/dx through one head. The sum of its parts is the gradient through the head. The sum over
/// all heads is dL/dx of the layer.
struct HeadGradient {
  std::array<OwnedMatrix<double>, 3> parts;  // through the query, key and value projections, [n, d] each
  OwnedMatrix<double> pattern;               // [n, n], from the forward pass
};

/// Returns the gradients of one head for dL/dY [n, d]. `scale` is the factor on the scores.
[[nodiscard]] HeadGradient head_gradient(const HeadMatrices& head, MatrixView<const double> x,
                                         MatrixView<const double> d_output, double scale);

/// Measures gradients for each d_k, with unscaled scores and with scores divided by sqrt(d_k). A row without
/// a head is for the whole layer. Throws Error(usage) if heads does not divide d.
[[nodiscard]] ExperimentResult gradients_experiment(const GradientsOptions& options, Pool& pool);

/// Attribution of one logit of a trained model to a value: the z of a head at all positions, or the embedding
/// of a token.
struct Attribution {
  double attribution = 0;  // <gradient, value>: derivative of the logit by a factor on the value, at factor 1
  double gradient = 0;     // Frobenius norm of the gradient
};

/// The attributions of one logit of one input.
struct LogitAttribution {
  std::string input;
  std::vector<std::string> tokens;  // [n]; empty without a vocabulary
  std::size_t position = 0;         // position of the token whose logits are used
  std::size_t target = 0;           // id of the token that the logit belongs to
  std::string target_text;          // empty without a vocabulary
  double logit = 0;
  std::vector<std::pair<model::HeadId, Attribution>> heads;  // the selected heads
  std::vector<Attribution> embeddings;                       // [n]
};
/// Returns the attributions to the given heads and to all tokens. Does not set `input`, `tokens`, `position`
/// and `target_text`.
[[nodiscard]] LogitAttribution attribute(const reference::LogitGradient& gradient,
                                         std::span<const model::HeadId> heads);

/// Returns for each input first one row per token, then one row per head. The chart shows the tokens of the
/// first input, and the heatmaps show the heads. `inputs` must not be empty.
[[nodiscard]] ExperimentResult gradients_of_model(const model::ModelConfig& config,
                                                  std::span<const LogitAttribution> inputs);

// --- distance: the influence of an event at the first token, or of tokens at any distance

struct DistanceOptions {
  std::size_t n = 512;     // number of tokens; at least 2
  std::size_t d = 64;      // size of a token's vector; at least 2
  std::size_t d_k = 16;    // size of queries and keys
  double strength = 16;    // score of the event's key without noise; the other keys have the score 0
  double noise = 0.5;      // root mean square norm of a token's noise
  std::size_t window = 8;  // tokens in the window of local attention, including the query; at least 2
  double decay = 0.9;      // share of its state that the recurrence baseline keeps per step
  std::uint64_t seed = 0;
};

/// Tokens and weights of a head that is constructed to attend to the event, in the row-vector convention. The
/// event is at the first token, which is c + e + noise. Every other token is c + noise. c and e are
/// orthonormal vectors. W_Q = g c u^T and W_K = g e u^T, where u is a unit vector and g a factor. g is chosen
/// so that query i and key j have the score strength * (x_i c) * (x_j e). The entries of W_V are normal with
/// variance 1/d.
struct BuiltHead {
  OwnedMatrix<double> x;           // [n, d]
  OwnedMatrix<double> query, key;  // [d, k]
  OwnedMatrix<double> value;       // [d, k]
};
[[nodiscard]] BuiltHead build_head(const DistanceOptions& options);

/// Measures causal attention to the event from queries that are 1, 2, 4, ... and n - 1 tokens after the
/// event, and three baselines: uniform weights; the recurrence h_t = decay h_(t-1) + (1 - decay) x_t with one
/// step per token; and layers of uniform attention to the last `window` tokens, as many as the query
/// needs to reach the event.
[[nodiscard]] ExperimentResult distance_experiment(const DistanceOptions& options);

/// Returns the distance profile of a trained model: one row per distance bin, and per head if `by_head` is
/// true, else per layer (over all heads in `heads`). `heads` must be in ascending order.
[[nodiscard]] ExperimentResult distance_of_model(const model::ModelConfig& config,
                                                 std::span<const analysis::HeadDistances> heads,
                                                 std::span<const analysis::DistanceBin> bins, bool by_head);

// --- kinds: the costs of attention kinds and their differences from full attention

struct KindsOptions {
  std::size_t layer = 0;  // index of the layer whose attention is replaced
  std::vector<model::AttentionKind> kinds;
  /// If set, adds a row with the costs of axial attention over a grid of tokens. This attention is not run.
  /// The input must be one sequence of grid rows * grid columns tokens.
  std::optional<analysis::AxialGrid> grid;
  std::uint64_t memory = 0;  // limit for the patterns of full attention, in bytes; 0: 4 GiB
};

/// Runs the model on the same inputs once with full attention in one layer, and once with each of the kinds.
/// Returns one row per kind, over all inputs and heads of the layer, and a row for `grid` if it is set.
/// Throws Error(limit) if full patterns need more than `memory` bytes, and the errors of run_forward().
[[nodiscard]] ExperimentResult kinds_experiment(const model::Model& model, const input::Batch& batch,
                                                const KindsOptions& options, forward::RunContext& context);

// --- hull: which keys a head can select

/// The coefficients q of a linear function q.x of a point x. If `exact` is empty, `values` are exact.
/// Otherwise, `exact` holds the coefficients as fractions ("-3/7") and `values` are rounded.
struct HullQuery {
  std::vector<double> values;
  std::vector<std::string> exact;
};

/// The weight of one point in a convex combination.
struct HullWeight {
  std::size_t point = 0;
  double weight = 0;  // rounded
  std::string exact;  // "1/2"
};

/// The position of a point p of a set relative to the convex hull of the set, with a proof.
struct HullPoint {
  bool vertex = false;              // p is a vertex of the hull and no other point equals p
  std::optional<std::size_t> twin;  // the first other point that equals p

  // Only if `vertex` is true: coefficients q with q.p > q.x for every other point x.
  HullQuery witness;
  /// For the q of `witness`: q.p minus the largest q.x of another point x. Approximately the largest value
  /// that is possible with |q_i| <= 1, which is the L1 distance from p to the hull of the other points.
  /// nullopt if `vertex` is false or there are no other points.
  std::optional<double> margin;

  // Only if `vertex` is false: p as a convex combination of at most d + 1 other points. The weights are
  // positive and sum to 1.
  std::vector<HullWeight> combination;
  // Only if `vertex` is false and p is not in the relative interior of the hull: coefficients q with
  // q.p >= q.x for every other point x, and q.p > q.x for at least one. q has as few ties as possible.
  // Otherwise empty.
  HullQuery support;
  std::vector<std::size_t> ties;  // the other points x with q.x = q.p, where q is `support`
};

/// Decides which points [m, d] are vertices of their convex hull. A point is a vertex if some linear function
/// has its only maximum at this point. For each point, a linear program in double proposes such a function,
/// and exact arithmetic checks it. If the check fails, an exact linear program decides. Throws
/// Error(bad_input) if a point is not finite.
[[nodiscard]] std::vector<HullPoint> hull_points(MatrixView<const double> points, Pool& pool);

/// Parses keys of the form "10,0;0,10", and returns them as rows. Error messages begin with `name`. Throws
/// Error(usage) if an item is not a number or if the keys have different sizes.
[[nodiscard]] OwnedMatrix<double> parse_keys(std::string_view text, const std::string& name);

/// Parses keys from a JSON document such as [[10, 0], [0, 10]], and returns them as rows. Error messages
/// begin with `name`. Throws Error(bad_input) if the document is not such an array or if the keys have
/// different sizes.
[[nodiscard]] OwnedMatrix<double> parse_json_keys(const std::string& document, const std::string& name);

/// Decides which keys [m, d] a head can select. Also reports which key d heads select together, if the score
/// of head i is coordinate i of the key: the key whose lowest score is the highest. A tie selects no key.
/// summary.keys holds the complete proofs, and the rows hold them as shortened text. Throws Error(bad_input)
/// if `keys` is empty or a key is not finite.
[[nodiscard]] ExperimentResult hull_experiment(MatrixView<const double> keys, Pool& pool);

// --- averaging: a head returns a weighted average of values, so several values need several heads

struct AveragingOptions {
  std::size_t targets = 8;  // largest number of targets: tokens whose values the heads should return
  std::size_t others = 8;   // number of other tokens
  std::size_t d_value = 64;
  double sharpness = 40;     // score of a query and a matching key; all other scores are 0
  std::size_t steps = 2000;  // number of gradient descent steps
  std::uint64_t seed = 0;
};

/// Measures how well h heads return the orthonormal values of t targets, for t from 1 to `targets` and h from
/// 1 to t. The smallest possible error of all values separately is sqrt(t - h), because a linear map of h
/// outputs has at most rank h. Throws Error(usage) if d_value is less than targets + others.
[[nodiscard]] ExperimentResult averaging_experiment(const AveragingOptions& options, Pool& pool);

// --- diversity: random heads, heads specialised to separate input dimensions, and trained heads

struct DiversityOptions {
  std::size_t d = 512;
  std::size_t heads = 8;
  std::size_t d_head = 64;
  double gain = 3;         // factor on the weights of a specialised head's own input dimensions
  std::size_t draws = 16;  // at least 1
  std::uint64_t seed = 0;
};

/// Compares random and specialised heads. Random heads have W_Q and W_K with independent normal entries of
/// deviation sqrt(2 / (d + d_head)). Specialised heads are drawn separately in the same way; then, with h
/// heads, rows i d/h to (i+1) d/h - 1 of W_Q and W_K of head i are multiplied by the gain.
[[nodiscard]] ExperimentResult diversity_experiment(const DiversityOptions& options, Pool& pool);

/// Returns W_Q and W_K of the first draw of the random or specialised heads, [heads, d, d_head] each.
[[nodiscard]] std::vector<Tensor> diversity_weights(const DiversityOptions& options, bool specialised,
                                                    Pool& pool);

/// Compares the heads of each layer of a trained model with random heads of the same shape. Uses only `draws`
/// and `seed` of the options. Throws Error(bad_input) if `circuit` is ov and a layer has no W_V or no W_O.
[[nodiscard]] ExperimentResult model_diversity_experiment(const model::Model& model,
                                                          analysis::Circuit circuit,
                                                          const DiversityOptions& options, Pool& pool,
                                                          Warnings& warnings);

// --- positions: sinusoidal positions (Vaswani et al. 2017, section 3.5) and the positions of a model

struct PositionsOptions {
  std::size_t positions = 64;
  std::size_t d = 64;           // even
  std::size_t far = 1'000'000;  // first of the far positions whose rotation residual is measured
  std::size_t heads = 4;        // heads of the random layer that receives permuted input; must divide d
  std::uint64_t seed = 0;
  /// A model whose position table or rotary positions are measured too; null: only sinusoidal positions.
  const model::Model* model = nullptr;
};

/// Returns the sinusoidal positions `first` to `first` + `count` - 1, [count, d]: PE(p, 2i) = sin(p /
/// 10000^(2i/d)) and PE(p, 2i+1) = cos(p / 10000^(2i/d)).
[[nodiscard]] OwnedMatrix<double> sinusoidal_positions(std::size_t first, std::size_t count, std::size_t d);

/// Applies to each row the rotation that maps PE(p) to PE(p + offset) for every position p. The rotation
/// turns the columns 2i and 2i+1 by the angle offset / 10000^(2i/d).
void turn_positions(MatrixView<double> rows, std::size_t offset);

/// Returns one row for each distance from 0 to `positions` - 1 between two positions. Throws Error(usage) if
/// d is odd, if heads does not divide d, or if there are more positions than the model has. Throws
/// Error(bad_input) if the model has neither rotary positions nor positions added to its embeddings.
[[nodiscard]] ExperimentResult positions_experiment(const PositionsOptions& options, Pool& pool);

// --- heads: what changes when a layer of width d is split among more heads

struct HeadsOptions {
  std::size_t d = 512;
  std::vector<std::size_t> heads = {1, 2, 4, 8, 16, 32, 64};  // each must divide d
  std::size_t length = 128;                                   // number of tokens
  std::uint64_t seed = 0;
};

/// Returns one row for each number of heads h. The ranks and patterns are those of a random layer and inputs
/// of unit variance. Throws Error(usage) if a number of heads does not divide d.
[[nodiscard]] ExperimentResult heads_experiment(const HeadsOptions& options, Pool& pool);

}  // namespace attnctl::textbook
