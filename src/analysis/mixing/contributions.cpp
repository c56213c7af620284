#include "analysis/mixing/contributions.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "analysis/head_axes.hpp"
#include "analysis/mixing/rollout.hpp"
#include "base/error.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::analysis {
namespace {

void copy_rows(MatrixView<const float> from, MatrixView<double> to) {
  for (std::size_t r = 0; r < from.rows; ++r) std::ranges::copy(from.row(r), to.row(r).begin());
}

OwnedMatrix<double> widened(MatrixView<const float> values) {
  OwnedMatrix<double> wide(values.rows, values.cols);
  copy_rows(values, wide.view());
  return wide;
}

/// Returns the Gram matrix of the rows of W: W W^T. For a row vector x, |x W|^2 = x (W W^T) x^T.
OwnedMatrix<double> gram(MatrixView<const double> w) {
  return linalg::product_nt(w, w);
}

/// Returns x G x^T for each row x of `x`, with G = `gram`. Negative results are set to 0.
std::vector<double> squared_norms(MatrixView<const double> x, const OwnedMatrix<double>& gram) {
  const OwnedMatrix<double> product = linalg::product(x, gram.view());
  std::vector<double> norms(x.rows);
  for (std::size_t r = 0; r < x.rows; ++r) {
    const double squared = dot(x.row(r), product.view().row(r));
    norms[r] = squared < 0 ? 0 : squared;  // a NaN stays NaN
  }
  return norms;
}

/// Returns the weights of a layer's attention as the pass uses them, so that they need no more memory.
model::Lease<model::AttentionWeights> attention_of(const model::Model& model, std::size_t layer) {
  return model.attention(layer, nullptr, model::WeightForm::stored);
}

/// Returns the Gram matrix of W_O of a head, [v, v]; an empty matrix if the layer has no W_O.
OwnedMatrix<double> output_gram(const model::Model& model, model::HeadId head) {
  const model::Lease<model::AttentionWeights> weights = attention_of(model, head.layer);
  const std::size_t width = model.config().layers[head.layer].attention.d_value;
  if (!weights->output.present()) return {};
  return gram(weights->output.inputs_double(head.head * width, width).view());
}

/// Returns |x W| for each row x of `rows`, where W is the matrix of the Gram matrix, or |x| if it is empty.
std::vector<double> norms_after(const OwnedMatrix<double>& gram, MatrixView<const float> rows) {
  const OwnedMatrix<double> wide = widened(rows);
  std::vector<double> norms(wide.rows());
  if (gram.rows() > 0) norms = squared_norms(wide.view(), gram);
  for (std::size_t r = 0; r < norms.size(); ++r)
    norms[r] = gram.rows() > 0 ? std::sqrt(norms[r]) : norm(wide.view().row(r));
  return norms;
}

/// Returns |x|, in double. Has several sums, so that an addition does not wait for the one before it.
double norm_of(std::span<const float> x) {
  std::array<double, 8> sums{};
  std::size_t first = 0;
  for (; first + sums.size() <= x.size(); first += sums.size()) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += double{x[first + i]} * double{x[first + i]};
  }
  for (; first < x.size(); ++first) sums[0] += double{x[first]} * double{x[first]};
  return std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0));
}

std::optional<double> ratio(double value, double by) {
  return by == 0 ? std::nullopt : std::optional(value / by);
}

/// Sums over the positions i of one input, for one head with output w. t is the output of all heads.
struct HeadSums {
  double norms = 0;    // sum of |w_i|
  double squares = 0;  // |w|^2
  double inner = 0;    // <w, t>
};

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
  const OwnedMatrix<double> along = linalg::product_nt(z.view(), svd.left.view());
  std::vector<double> energy(svd.left.rows(), 0.0);
  for (std::size_t r = 0; r < along.rows(); ++r) {
    for (std::size_t i = 0; i < energy.size(); ++i) {
      const double part = svd.values[i] * along(r, i);
      energy[i] += part * part;
    }
  }
  return energy;
}

/// Applies the linear part of a norm to a row, with the scale of `normed`, the row that the model normalises.
void apply_linear_part(const model::NormConfig& config, const model::NormWeights& weights,
                       std::span<const double> normed, std::span<double> row) {
  const auto centre_of = [&](std::span<const double> of) {
    if (config.kind != model::NormKind::layer) return 0.0;
    return std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
  };
  const double normed_centre = centre_of(normed);
  double squares = 0;
  for (const double value : normed) squares += (value - normed_centre) * (value - normed_centre);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + double{config.eps});
  const double centre = centre_of(row);
  for (std::size_t c = 0; c < row.size(); ++c) {
    const double gain = weights.gain.empty() ? 1 : double{weights.gain[c]};
    row[c] = (row[c] - centre) * scale * gain;
  }
}

}  // namespace

void ValueNorms::compute(MatrixView<const float> values) {
  if (!gram_) gram_ = output_gram(*model_, head_);
  norms_ = norms_after(*gram_, values);
}

std::vector<double> OutputGrams::write_norms(const model::Model& model, std::size_t index,
                                             MatrixView<const float> z) {
  Gram& gram = grams_[index];
  std::call_once(gram.computed, [&] { gram.matrix = output_gram(model, heads_[index]); });
  return norms_after(gram.matrix, z);
}

std::uint64_t value_norms_bytes(const model::Model& model, const input::Batch& batch,
                                std::span<const model::HeadId> heads) {
  const std::uint64_t keys = batch.most_keys();
  std::uint64_t bytes = 0;
  for (const model::HeadId head : heads) {
    const std::uint64_t width = model.config().layers[head.layer].attention.d_value;
    bytes += (keys + width * width) * sizeof(double);
  }
  return bytes;
}

const OwnedMatrix<double>& LayerWritesObserver::output_matrix(std::size_t layer) {
  if (output_layer_ == layer) return output_;
  const model::Lease<model::AttentionWeights> weights = attention_of(*model_, layer);
  output_ = weights->output.present() ? weights->output.in_out_double()
                                      : identity(attention(layer).heads * attention(layer).d_value);
  output_layer_ = layer;
  return output_;
}

void LayerWritesObserver::panel(const forward::AttentionPanel& panel) {
  if (!is_selected(panel.layer) || panel.z.data == nullptr) return;
  copy_rows(panel.z, part_of(z_[panel.sequence], panel));
  add_panel(panel);
}

std::uint64_t LayerWritesObserver::memory(const model::Model& model, const input::Batch& batch) const {
  const model::ModelConfig& config = model.config();
  std::uint64_t rows = 0;
  for (const input::Sequence& sequence : batch.sequences)
    rows += std::max<std::uint64_t>(sequence.queries(), sequence.target ? sequence.target->queries() : 0);
  std::uint64_t width = 0;
  std::uint64_t bytes = 0;
  for (const std::size_t layer : layers_) {
    const model::AttentionConfig& attention = config.layers.at(layer).attention;
    const std::uint64_t heads = std::uint64_t{attention.heads} * attention.d_value;
    width = std::max(width, heads);
    bytes += kept_.of_output * heads * config.d_output * sizeof(double);
  }
  return bytes + rows * (kept_.of_heads * width + kept_.of_stream * config.d_model) * sizeof(double);
}

void Contributions::add_stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) {
  const OwnedMatrix<double> wide = widened(values);
  std::vector<double>& norms = stream_[sequence];
  norms.clear();
  for (std::size_t r = 0; r < wide.rows(); ++r) norms.push_back(norm(wide.view().row(r)));
  for (std::size_t head = 0; head < attention(layer).heads; ++head) rows_[sequence][{layer, head}] = 0;
}

void Contributions::add_panel(const forward::AttentionPanel& panel) {
  std::uint64_t& rows = rows_[panel.sequence].at({panel.layer, panel.head});
  for (std::size_t r = 0; r < panel.z.rows; ++r)
    if (panel.fully_masked.empty() || panel.fully_masked[r] == 0) ++rows;
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
  const OwnedMatrix<double> whole = linalg::product(z.view(), w_o.view());
  // t W_O^T, so that <w, t> = <z, back> for each head
  const OwnedMatrix<double> back = linalg::product_nt(whole.view(), w_o.view());
  double whole_norms = 0;    // sum of |t_i|
  double whole_squares = 0;  // |t|^2
  for (std::size_t r = 0; r < whole.rows(); ++r) {
    const double of_row = norm(whole.view().row(r));
    whole_norms += of_row;
    whole_squares += of_row * of_row;
  }

  const std::vector<double>& stream = stream_[sequence];
  std::vector<HeadSums> sums(heads);
  double all_norms = 0;
  for (std::size_t head = 0; head < heads; ++head) {
    const MatrixView<const double> own = z.view().col_range(head * width, width);
    const std::vector<double> squares = squared_norms(own, grams_[head]);  // |w_i|^2
    for (std::size_t r = 0; r < own.rows; ++r) {
      sums[head].norms += std::sqrt(squares[r]);
      sums[head].squares += squares[r];
      sums[head].inner += dot(own.row(r), back.view().row(r).subspan(head * width, width));
    }
    all_norms += sums[head].norms;
  }
  const auto count = static_cast<double>(z.rows());
  const double stream_norms = std::accumulate(stream.begin(), stream.end(), 0.0);
  for (std::size_t head = 0; head < heads; ++head) {
    const model::HeadId id{layer, head};
    if (!head_index(heads_, id)) continue;
    const HeadSums& own = sums[head];
    const std::uint64_t rows = rows_[sequence].at(id);
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
        .stream_norm = ratio(stream_norms, count),
    };
  }
}

std::uint64_t WriteRatios::memory(const model::Model& model, const input::Batch& batch) const {
  std::uint64_t positions = 0;
  for (const input::Sequence& sequence : batch.sequences)
    positions +=
        std::max<std::uint64_t>(sequence.queries(), sequence.target ? sequence.target->queries() : 0);
  return value_norms_bytes(model, batch, heads_) + positions * sizeof(double) +
         batch.sequences.size() * heads_.size() * sizeof(HeadWriteRatio);
}

void WriteRatios::begin(const model::Model& model, const input::Batch& batch) {
  model_ = &model;
  stream_.assign(batch.sequences.size(), {});
  found_.clear();
  for (std::size_t input = 0; input < batch.sequences.size(); ++input) {
    for (const model::HeadId head : heads_) found_.push_back({.input = input, .head = head});
  }
}

void WriteRatios::stream(std::size_t sequence, std::size_t /*layer*/, MatrixView<const float> values) {
  std::vector<double>& norms = stream_[sequence];
  norms.resize(values.rows);
  for (std::size_t r = 0; r < values.rows; ++r) norms[r] = norm_of(values.row(r));
}

void WriteRatios::panel(const forward::AttentionPanel& panel) {
  const auto head = head_index(heads_, {panel.layer, panel.head});
  if (!head || panel.z.data == nullptr) return;
  HeadWriteRatio& found = found_[panel.sequence * heads_.size() + *head];
  const std::vector<double> norms = grams_->write_norms(*model_, *head, panel.z);
  for (std::size_t r = 0; r < norms.size(); ++r) {
    const double stream = stream_[panel.sequence][panel.first_query + r];
    if (stream == 0 || (!panel.fully_masked.empty() && panel.fully_masked[r] != 0)) continue;
    ++found.positions;
    found.sum += norms[r] / stream;
  }
}

std::uint64_t OutputRank::memory(const model::Model& model, const input::Batch& batch) const {
  std::uint64_t bytes = LayerWritesObserver::memory(model, batch);
  for (const std::size_t layer : layers_) bytes += model.attention_bytes(layer);
  return bytes;
}

void OutputRank::begin(const model::Model& model, const input::Batch& batch) {
  LayerWritesObserver::begin(model, batch);
  std::vector<model::Lease<model::AttentionWeights>> leases;
  std::vector<std::pair<model::Linear, linalg::ProductSvd*>> tasks;
  for (const std::size_t layer : layers_) {
    leases.push_back(attention_of(model, layer));
    const model::Linear& weights = leases.back()->output;
    const auto [place, is_new] = decomposed_.try_emplace(model.shared_with(layer));
    if (is_new && weights.present()) tasks.emplace_back(weights, &place->second);
  }
  pool_.run(tasks.size(),
            [&](std::size_t task, std::size_t) { *tasks[task].second = decompose(tasks[task].first); });
}

void OutputRank::add_layer(std::size_t sequence, std::size_t layer, OwnedMatrix<double>& z,
                           MatrixView<const float> output) {
  const model::Lease<model::AttentionWeights> weights = attention_of(*model_, layer);
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

void Mixing::begin(const model::Model& model, const input::Batch& batch) {
  require_own_keys(batch, "mixing");
  const model::ModelConfig& config = model.config();
  if (config.d_output != 0 && config.d_output != config.d_model)
    fail(Status::bad_input,
         "{}: the attention output has width {} and the stream has width {}, so the mixing ratio is "
         "undefined; leave mixing out of --include",
         escaped(model.name()), config.d_output, config.d_model);
  for (const model::LayerConfig& layer : config.layers) {
    if (layer.place != model::NormPlace::output && layer.place != model::NormPlace::both &&
        layer.residual_multiplier == 1)
      continue;
    fail(Status::bad_input,
         "{}: mixing ratios are unsupported, because the model normalises or scales the attention output "
         "before it adds it to the stream; leave mixing out of --include",
         escaped(model.name()));
  }
  LayerWritesObserver::begin(model, batch);
  own_.assign(batch.sequences.size(), {});
  stream_.assign(batch.sequences.size(), {});
}

void Mixing::add_stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) {
  own_[sequence] = empty_z(layer, values.rows);
  stream_[sequence] = widened(values);
}

void Mixing::add_panel(const forward::AttentionPanel& panel) {
  const MatrixView<double> own = part_of(own_[panel.sequence], panel);
  for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
    const std::size_t i = panel.first_query + r;
    const double weight = panel.pattern(r, i);
    if (weight == 0) continue;  // the value of a hidden key can be NaN
    for (std::size_t c = 0; c < panel.z.cols; ++c) own(r, c) = weight * double{panel.v(i, c)};
  }
}

void Mixing::add_layer(std::size_t sequence, std::size_t layer, OwnedMatrix<double>& z,
                       MatrixView<const float> output) {
  const OwnedMatrix<double>& w_o = output_matrix(layer);
  const OwnedMatrix<double> stream = std::exchange(stream_[sequence], {});
  const OwnedMatrix<double> own = std::exchange(own_[sequence], {});
  OwnedMatrix<double>& others = z;
  std::ranges::transform(z.values(), own.values(), others.values().begin(), std::minus<>());
  OwnedMatrix<double> keep = stream;
  linalg::gemm_nn(own.view(), w_o.view(), keep.view(), 1, 1);
  OwnedMatrix<double> mix = linalg::product(others.view(), w_o.view());

  const model::LayerConfig& config = model_->config().layers[layer];
  const model::Lease<model::LayerWeights> weights = model_->layer(layer, nullptr, model::WeightForm::stored);
  LayerMixing& found = found_[{sequence, layer}];
  found = {sequence, layer, {}};
  std::vector<double> sum(stream.cols());
  for (std::size_t r = 0; r < stream.rows(); ++r) {
    if (config.place == model::NormPlace::post && config.norm.kind != model::NormKind::none) {
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] = stream(r, c) + double{output(r, c)};
      apply_linear_part(config.norm, weights->attention_norm, sum, keep.view().row(r));
      apply_linear_part(config.norm, weights->attention_norm, sum, mix.view().row(r));
    }
    found.positions.push_back({norm(mix.view().row(r)), norm(keep.view().row(r))});
  }
}

}  // namespace attnctl::analysis
