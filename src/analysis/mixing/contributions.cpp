#include "analysis/mixing/contributions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/head_axes.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::analysis {
namespace {

std::optional<double> ratio(double value, double by) {
  return by == 0 ? std::nullopt : std::optional(value / by);
}

/// Sums over the positions i of one input, for one head with output w. t is the output of all heads.
struct HeadSums {
  double norms = 0;    // sum of |w_i|
  double squares = 0;  // |w|^2
  double inner = 0;    // <w, t>
};

/// Returns the sums of a head with outputs z [n, v]. `back` is t W_O^h^T, so that <w, t> = <z, back>. `gram`
/// is W_O^h W_O^h^T, so that |w_i|^2 = z_i gram z_i^T.
HeadSums head_sums(MatrixView<const double> z, MatrixView<const double> back,
                   const OwnedMatrix<double>& gram) {
  HeadSums sums;
  const std::vector<double> squares = squared_norms(z, gram);
  for (std::size_t r = 0; r < z.rows; ++r) {
    sums.norms += std::sqrt(squares[r]);
    sums.squares += squares[r];
    sums.inner += dot(z.row(r), back.row(r));
  }
  return sums;
}

std::optional<double> relative(double squared_change, double squared_whole) {
  return ratio(std::sqrt(squared_change), std::sqrt(squared_whole));
}

/// Returns the SVD W_O = U S V^T. The output is y = z U S V^T, and |y|^2 is the sum of (s_i |z u_i|)^2.
/// Reducing the rank of W_O removes terms of this sum.
linalg::ProductSvd decompose(const model::Linear& weights) {
  const OwnedMatrix<double> output = weights.in_out_double();
  const std::size_t rank = std::min(output.rows(), output.cols());
  if (!linalg::all_finite(output.values())) {
    linalg::ProductSvd undefined;  // makes all changes NaN
    undefined.values.assign(rank, std::numeric_limits<double>::quiet_NaN());
    undefined.left = OwnedMatrix<double>(rank, output.rows());
    return undefined;
  }
  OwnedMatrix<double> columns(output.cols(), output.rows());
  for (std::size_t i = 0; i < output.rows(); ++i) {
    for (std::size_t j = 0; j < output.cols(); ++j) columns(j, i) = output(i, j);
  }
  OwnedMatrix<double> unit = identity(output.cols());
  return linalg::svd_of_product(columns.view(), unit.view(), rank);
}

/// Returns (s_i |z u_i|)^2 for each singular value s_i, in descending order of s_i.
std::vector<double> energies(const OwnedMatrix<double>& z, const linalg::ProductSvd& svd) {
  OwnedMatrix<double> along(z.rows(), svd.left.rows());
  linalg::gemm_nt(z.view(), svd.left.view(), along.view());
  std::vector<double> energy(svd.left.rows(), 0.0);
  for (std::size_t r = 0; r < along.rows(); ++r) {
    for (std::size_t i = 0; i < energy.size(); ++i) {
      const double part = svd.values[i] * along(r, i);
      energy[i] += part * part;
    }
  }
  return energy;
}

}  // namespace

void Contributions::add_stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) {
  const OwnedMatrix<double> wide = widened(values);
  double sum = 0;
  for (std::size_t r = 0; r < wide.rows(); ++r) sum += norm(wide.view().row(r));
  stream_[sequence] = sum;
  for (std::size_t head = 0; head < attention(layer).heads; ++head) seen_[sequence][{layer, head}] = 0;
}

void Contributions::add_panel(const forward::AttentionPanel& panel) {
  std::uint64_t& seen = seen_[panel.sequence].at({panel.layer, panel.head});
  for (std::size_t r = 0; r < panel.z.rows; ++r) {
    if (panel.fully_masked.empty() || panel.fully_masked[r] == 0) ++seen;
  }
}

void Contributions::add_layer(std::size_t sequence, std::size_t layer, OwnedMatrix<double>& z,
                              MatrixView<const float> /*output*/) {
  const auto [heads, width] = std::pair(attention(layer).heads, attention(layer).d_value);
  const OwnedMatrix<double>& w_o = output_matrix(layer);
  if (layer_ != layer) {
    layer_ = layer;
    grams_.clear();
    for (std::size_t head = 0; head < heads; ++head)
      grams_.push_back(gram(w_o.view().row_range(head * width, width)));
  }
  OwnedMatrix<double> whole(z.rows(), w_o.cols());
  linalg::gemm_nn(z.view(), w_o.view(), whole.view());
  OwnedMatrix<double> back(z.rows(), z.cols());
  linalg::gemm_nt(whole.view(), w_o.view(), back.view());
  double whole_norms = 0;    // sum of |t_i|
  double whole_squares = 0;  // |t|^2
  for (std::size_t r = 0; r < whole.rows(); ++r) {
    const double of_row = norm(whole.view().row(r));
    whole_norms += of_row;
    whole_squares += of_row * of_row;
  }

  std::vector<HeadSums> sums;
  double all_norms = 0;
  for (std::size_t head = 0; head < heads; ++head) {
    sums.push_back(head_sums(z.view().col_range(head * width, width),
                             back.view().col_range(head * width, width), grams_[head]));
    all_norms += sums.back().norms;
  }
  const auto count = static_cast<double>(z.rows());
  for (std::size_t head = 0; head < heads; ++head) {
    const model::HeadId id{layer, head};
    if (!head_index(heads_, id)) continue;
    const HeadSums& own = sums[head];
    const std::uint64_t rows = seen_[sequence].at(id);
    found_[{sequence, id}] = {
        .input = sequence,
        .head = id,
        .rows = rows,
        .norm = ratio(own.norms, static_cast<double>(rows)),
        .norm_share = ratio(own.norms, all_norms),
        .cosine = ratio(own.inner, std::sqrt(own.squares) * std::sqrt(whole_squares)),
        .share = ratio(own.inner, whole_squares),
        .explained = ratio(2 * own.inner - own.squares, whole_squares),
        .whole_norm = ratio(whole_norms, count),
        .stream_norm = ratio(stream_[sequence], count),
    };
  }
}

void OutputRank::begin(const model::Model& model, const input::Batch& batch) {
  LayerWritesObserver::begin(model, batch);
  std::vector<model::Lease<model::AttentionWeights>> leases;
  std::vector<std::pair<model::Linear, linalg::ProductSvd*>> tasks;
  for (const std::size_t layer : layers_) {
    leases.push_back(model.attention(layer));
    const model::Linear& weights = leases.back()->output;
    const auto [place, is_new] = decomposed_.try_emplace(model.shared_with(layer));
    if (is_new && weights.present()) tasks.emplace_back(weights, &place->second);
  }
  pool_.run(tasks.size(),
            [&](std::size_t task, std::size_t) { *tasks[task].second = decompose(tasks[task].first); });
}

void OutputRank::add_layer(std::size_t sequence, std::size_t layer, OwnedMatrix<double>& z,
                           MatrixView<const float> output) {
  const model::Lease<model::AttentionWeights> weights = model_->attention(layer);
  if (!weights->output.present()) return;
  const std::vector<double> energy = energies(z, decomposed_.at(model_->shared_with(layer)));
  // [rank]: sum of the energies that a reduction to this rank removes.
  std::vector<double> left_out(energy.size() + 1, 0.0);
  for (std::size_t i = energy.size(); i-- > 0;) left_out[i] = left_out[i + 1] + energy[i];

  LayerOutputRank& found = found_[{sequence, layer}];
  found = {sequence, layer, energy.size(), {}, std::nullopt};
  std::vector<std::size_t> ranks = ranks_;
  for (std::size_t rank = 1; ranks_.empty() && rank < energy.size(); rank *= 2) ranks.push_back(rank);
  for (const std::size_t rank : ranks)
    found.cuts.push_back({rank, relative(left_out[std::min(rank, energy.size())], left_out[0])});
  if (output.cols != z.cols()) return;
  const std::span<const float> bias = weights->output.bias;
  double change = 0;
  for (std::size_t r = 0; r < z.rows(); ++r) {
    for (std::size_t c = 0; c < z.cols(); ++c) {
      const double y = double{output(r, c)} - (bias.empty() ? 0.0 : double{bias[c]});
      change += (z(r, c) - y) * (z(r, c) - y);
    }
  }
  found.removed = relative(change, left_out[0]);
}

}  // namespace attnctl::analysis
