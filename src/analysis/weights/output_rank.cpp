#include "analysis/weights/output_rank.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "analysis/mixing/layer_writes.hpp"
#include "linalg/decompositions.hpp"
#include "linalg/gemm.hpp"

namespace attnctl {
namespace {

std::optional<double> relative(double squared_change, double squared_whole) {
  if (squared_whole == 0) return std::nullopt;
  return std::sqrt(squared_change) / std::sqrt(squared_whole);
}

/// Returns the SVD of W_O = U S V^T. Then y = z U S V^T and |y|^2 is the sum of (s_i |z u_i|)^2; reducing
/// the rank removes terms of this sum.
ProductSvd decompose(const Linear& weights) {
  const OwnedMatrix<double> output = weights.in_out_double();
  const std::size_t rank = std::min(output.rows(), output.cols());
  if (!std::ranges::all_of(output.values(), [](double value) { return std::isfinite(value); })) {
    ProductSvd undefined;  // all changes computed from it are NaN
    undefined.values.assign(rank, std::numeric_limits<double>::quiet_NaN());
    undefined.left = OwnedMatrix<double>(rank, output.rows());
    return undefined;
  }
  OwnedMatrix<double> columns(output.cols(), output.rows());
  for (std::size_t i = 0; i < output.rows(); ++i) {
    for (std::size_t j = 0; j < output.cols(); ++j) columns(j, i) = output(i, j);
  }
  OwnedMatrix<double> identity(output.cols(), output.cols());
  for (std::size_t i = 0; i < identity.rows(); ++i) identity(i, i) = 1;
  return svd_of_product(columns.view(), identity.view(), rank);
}

/// Returns (s_i |z u_i|)^2 of each singular direction, largest singular value first.
std::vector<double> energies(const OwnedMatrix<double>& z, const ProductSvd& svd) {
  OwnedMatrix<double> along(z.rows(), svd.left.rows());
  gemm_nt(z.view(), svd.left.view(), along.view());
  std::vector<double> energy(svd.left.rows(), 0.0);
  for (std::size_t r = 0; r < along.rows(); ++r) {
    for (std::size_t i = 0; i < energy.size(); ++i) {
      const double part = svd.values[i] * along(r, i);
      energy[i] += part * part;
    }
  }
  return energy;
}

/// Returns 1, 2, 4, ... below the full rank.
std::vector<std::size_t> default_ranks(std::size_t full) {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 1; rank < full; rank *= 2) ranks.push_back(rank);
  return ranks;
}

}  // namespace

struct OutputRank::State {
  std::vector<std::size_t> layers;
  std::vector<std::size_t> ranks;
  const Model* model = nullptr;
  HeadsSideBySide z;
  Pool* pool = nullptr;
  std::map<std::size_t, ProductSvd> decomposed;  // by layer; shared weights: by the first layer
  std::map<std::pair<std::size_t, std::size_t>, LayerOutputRank> found;

  [[nodiscard]] bool wants(std::size_t layer) const {
    return is_one_of(layers, layer) && model->attention(layer)->output.present();
  }
};

OutputRank::OutputRank(const Selection& selection, std::vector<std::size_t> ranks, Pool& pool)
    : state_(std::make_unique<State>()) {
  state_->layers = selection.layers();
  state_->ranks = std::move(ranks);
  state_->pool = &pool;
}

OutputRank::~OutputRank() = default;

std::uint64_t OutputRank::memory(const Model& model, const Batch& batch) const {
  return writes_bytes(model, batch, state_->layers, {.of_heads = 2, .of_stream = 0, .of_output = 6});
}

void OutputRank::begin(const Model& model, const Batch& batch) {
  state_->model = &model;
  state_->z.begin(batch.sequences.size());
  std::vector<Lease<AttentionWeights>> leases;
  std::vector<std::pair<Linear, ProductSvd*>> tasks;
  for (const std::size_t layer : state_->layers) {
    leases.push_back(model.attention(layer));
    const Linear& weights = leases.back()->output;
    const auto [place, is_new] = state_->decomposed.try_emplace(model.shared_with(layer));
    if (is_new && weights.present()) tasks.emplace_back(weights, &place->second);
  }
  state_->pool->run(tasks.size(), [&](std::size_t task, std::size_t) {
    *tasks[task].second = decompose(tasks[task].first);
  });
}

void OutputRank::stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) {
  if (!is_one_of(state_->layers, layer)) return;
  const AttentionConfig& attention = state_->model->config().layers[layer].attention;
  state_->z.open(sequence, values.rows, attention.heads * attention.d_value);
}

void OutputRank::panel(const AttentionPanel& panel) {
  if (!is_one_of(state_->layers, panel.layer) || panel.z.data == nullptr) return;
  copy_rows(panel.z, state_->z.part(panel, panel.z.cols));
}

void OutputRank::output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) {
  if (!state_->wants(layer)) return;
  const OwnedMatrix<double> z = state_->z.take(sequence);
  const std::vector<double> energy = energies(z, state_->decomposed.at(state_->model->shared_with(layer)));
  std::vector<double> left_out(energy.size() + 1, 0.0);  // [rank]: energy that a cut to this rank removes
  for (std::size_t i = energy.size(); i-- > 0;) left_out[i] = left_out[i + 1] + energy[i];

  LayerOutputRank& found = state_->found[{sequence, layer}];
  found = {sequence, layer, energy.size(), {}, std::nullopt};
  for (const std::size_t rank : state_->ranks.empty() ? default_ranks(energy.size()) : state_->ranks) {
    found.cuts.push_back({rank, relative(left_out[std::min(rank, energy.size())], left_out[0])});
  }
  if (values.cols != z.cols()) return;
  const std::span<const float> bias = state_->model->attention(layer)->output.bias;
  double change = 0;
  for (std::size_t r = 0; r < z.rows(); ++r) {
    for (std::size_t c = 0; c < z.cols(); ++c) {
      const double y = double{values(r, c)} - (bias.empty() ? 0.0 : double{bias[c]});
      change += (z(r, c) - y) * (z(r, c) - y);
    }
  }
  found.removed = relative(change, left_out[0]);
}

std::vector<LayerOutputRank> OutputRank::finish() {
  std::vector<LayerOutputRank> result;
  for (auto& [key, found] : state_->found) result.push_back(std::move(found));
  state_->found.clear();
  return result;
}

}  // namespace attnctl
