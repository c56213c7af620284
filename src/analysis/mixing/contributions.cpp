#include "analysis/mixing/contributions.hpp"

#include <cmath>
#include <map>
#include <utility>

#include "analysis/head_index.hpp"
#include "analysis/mixing/layer_writes.hpp"
#include "linalg/gemm.hpp"

namespace attnctl {
namespace {

std::optional<double> ratio(double value, double by) {
  return by == 0 ? std::nullopt : std::optional(value / by);
}

/// Sums over the positions of one input.
struct HeadSums {
  std::uint64_t rows = 0;  // positions that see a key
  double norms = 0;        // sum of |w_i|
  double squares = 0;      // |w|^2
  double inner = 0;        // <w, t>
};

struct WholeSums {
  std::size_t rows = 0;
  double norms = 0;    // sum of |t_i|
  double squares = 0;  // |t|^2
  double stream = 0;   // sum of |x_i|
};

/// Output matrices of one layer.
struct LayerMatrices {
  std::size_t layer = 0;
  OwnedMatrix<double> output;              // W_O
  std::vector<OwnedMatrix<double>> grams;  // W_O^h W_O^h^T per head
};

LayerMatrices matrices_of(const Model& model, std::size_t layer) {
  const AttentionConfig& attention = model.config().layers[layer].attention;
  LayerMatrices made{layer, output_matrix(model, layer), {}};
  for (std::size_t head = 0; head < attention.heads; ++head) {
    made.grams.push_back(gram(head_rows(made.output, head, attention.d_value)));
  }
  return made;
}

WholeSums whole_sums(const OwnedMatrix<double>& whole, double stream) {
  WholeSums sums{whole.rows(), 0, 0, stream};
  for (std::size_t r = 0; r < whole.rows(); ++r) {
    const double of_row = norm(whole.view().row(r));
    sums.norms += of_row;
    sums.squares += of_row * of_row;
  }
  return sums;
}

/// Returns the sums of one head. `back` is t W_O^h^T, the whole write projected onto the head's values, so
/// that <w, t> = <z, back>.
HeadSums head_sums(MatrixView<const double> z, MatrixView<const double> back, const OwnedMatrix<double>& gram,
                   std::uint64_t rows) {
  HeadSums sums;
  sums.rows = rows;
  const std::vector<double> squares = squared_norms(z, gram);
  for (std::size_t r = 0; r < z.rows; ++r) {
    sums.norms += std::sqrt(squares[r]);
    sums.squares += squares[r];
    sums.inner += dot(z.row(r), back.row(r));
  }
  return sums;
}

HeadContribution contribution(std::size_t input, HeadId head, const HeadSums& of_head, double all_norms,
                              const WholeSums& whole) {
  const auto count = static_cast<double>(whole.rows);
  HeadContribution made;
  made.input = input;
  made.head = head;
  made.rows = of_head.rows;
  made.norm = ratio(of_head.norms, static_cast<double>(of_head.rows));
  made.norm_share = ratio(of_head.norms, all_norms);
  made.cosine = ratio(of_head.inner, std::sqrt(of_head.squares) * std::sqrt(whole.squares));
  made.share = ratio(of_head.inner, whole.squares);
  made.explained = ratio(2 * of_head.inner - of_head.squares, whole.squares);
  made.whole_norm = ratio(whole.norms, count);
  made.stream_norm = ratio(whole.stream, count);
  return made;
}

}  // namespace

struct Contributions::State {
  std::vector<HeadId> heads;
  std::vector<std::size_t> layers;
  const Model* model = nullptr;
  HeadsSideBySide z;
  std::vector<std::map<HeadId, std::uint64_t>> seen;  // [sequences]: positions that see a key, per head
  std::vector<double> stream;                         // [sequences]: sum of |x_i| in the current layer
  std::optional<LayerMatrices> matrices;
  std::map<std::pair<std::size_t, HeadId>, HeadContribution> found;

  void add_layer(std::size_t sequence, std::size_t layer);
};

Contributions::Contributions(const Selection& selection) : state_(std::make_unique<State>()) {
  state_->heads = selection.heads;
  state_->layers = selection.layers();
}

Contributions::~Contributions() = default;

std::uint64_t Contributions::memory(const Model& model, const Batch& batch) const {
  const std::uint64_t found = batch.sequences.size() * state_->heads.size() * 2 * sizeof(HeadContribution);
  return found + writes_bytes(model, batch, state_->layers, {.of_heads = 2, .of_stream = 2, .of_output = 2});
}

void Contributions::begin(const Model& model, const Batch& batch) {
  state_->model = &model;
  state_->z.begin(batch.sequences.size());
  state_->seen.assign(batch.sequences.size(), {});
  state_->stream.assign(batch.sequences.size(), 0);
}

void Contributions::stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) {
  const AttentionConfig& attention = state_->model->config().layers[layer].attention;
  if (!is_one_of(state_->layers, layer)) return;
  state_->z.open(sequence, values.rows, attention.heads * attention.d_value);
  const OwnedMatrix<double> wide = widened(values);
  double sum = 0;
  for (std::size_t r = 0; r < wide.rows(); ++r) sum += norm(wide.view().row(r));
  state_->stream[sequence] = sum;
  for (std::size_t head = 0; head < attention.heads; ++head) state_->seen[sequence][{layer, head}] = 0;
}

void Contributions::panel(const AttentionPanel& panel) {
  if (!is_one_of(state_->layers, panel.layer) || panel.z.data == nullptr) return;
  copy_rows(panel.z, state_->z.part(panel, panel.z.cols));
  std::uint64_t& seen = state_->seen[panel.sequence].at({panel.layer, panel.head});
  for (std::size_t r = 0; r < panel.z.rows; ++r) {
    if (panel.fully_masked.empty() || panel.fully_masked[r] == 0) ++seen;
  }
}

void Contributions::output(std::size_t sequence, std::size_t layer, MatrixView<const float> /*values*/) {
  if (is_one_of(state_->layers, layer)) state_->add_layer(sequence, layer);
}

void Contributions::State::add_layer(std::size_t sequence, std::size_t layer) {
  const AttentionConfig& attention = model->config().layers[layer].attention;
  if (!matrices || matrices->layer != layer) matrices = matrices_of(*model, layer);
  const OwnedMatrix<double> rows = z.take(sequence);
  OwnedMatrix<double> whole(rows.rows(), matrices->output.cols());
  gemm_nn(rows.view(), matrices->output.view(), whole.view());
  OwnedMatrix<double> back(rows.rows(), rows.cols());
  gemm_nt(std::as_const(whole).view(), matrices->output.view(), back.view());

  std::vector<HeadSums> sums;
  double all_norms = 0;
  for (std::size_t head = 0; head < attention.heads; ++head) {
    const std::size_t first = head * attention.d_value;
    sums.push_back(head_sums(rows.view().col_range(first, attention.d_value),
                             std::as_const(back).view().col_range(first, attention.d_value),
                             matrices->grams[head], seen[sequence].at({layer, head})));
    all_norms += sums.back().norms;
  }
  const WholeSums of_whole = whole_sums(whole, stream[sequence]);
  for (std::size_t head = 0; head < attention.heads; ++head) {
    const HeadId id{layer, head};
    if (!head_index(heads, id)) continue;
    found[{sequence, id}] = contribution(sequence, id, sums[head], all_norms, of_whole);
  }
}

std::vector<HeadContribution> Contributions::finish() {
  std::vector<HeadContribution> result;
  for (auto& [key, contribution] : state_->found) result.push_back(contribution);
  state_->found.clear();
  return result;
}

}  // namespace attnctl
