#include "analysis/mixing/layer_writes.hpp"

#include "linalg/gemm.hpp"

namespace attnctl::analysis {

static void copy_rows(MatrixView<const float> from, MatrixView<double> to) {
  for (std::size_t r = 0; r < from.rows; ++r) std::ranges::copy(from.row(r), to.row(r).begin());
}

OwnedMatrix<double> gram(MatrixView<const double> w) {
  OwnedMatrix<double> product(w.rows, w.rows);
  linalg::gemm_nt(w, w, product.view());
  return product;
}

std::vector<double> squared_norms(MatrixView<const double> x, const OwnedMatrix<double>& gram) {
  OwnedMatrix<double> product(x.rows, x.cols);
  linalg::gemm_nn(x, gram.view(), product.view());
  std::vector<double> norms(x.rows);
  for (std::size_t r = 0; r < x.rows; ++r) {
    const double squared = dot(x.row(r), product.view().row(r));
    norms[r] = squared < 0 ? 0 : squared;  // a NaN stays NaN
  }
  return norms;
}

ValueNorms::ValueNorms(const model::Model& model, model::HeadId head) : lease_(model.attention(head.layer)) {
  const std::size_t width = model.config().layers[head.layer].attention.d_value;
  if (lease_->output.present()) output_ = lease_->output.inputs(head.head * width, width);
}

std::vector<double> ValueNorms::of(MatrixView<const float> values) {
  const OwnedMatrix<double> wide = widened(values);
  std::vector<double> norms(wide.rows());
  if (!output_.present()) {
    for (std::size_t j = 0; j < norms.size(); ++j) norms[j] = norm(wide.view().row(j));
    return norms;
  }
  if (gram_.rows() == 0) gram_ = gram(output_.in_out_double().view());
  norms = squared_norms(wide.view(), gram_);
  for (double& value : norms) value = std::sqrt(value);
  return norms;
}

std::uint64_t value_norms_bytes(const model::Model& model, const input::Batch& batch,
                                std::span<const model::HeadId> heads) {
  std::uint64_t keys = 0;
  for (const input::Sequence& sequence : batch.sequences)
    keys = std::max<std::uint64_t>(keys, sequence.keys());
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const std::uint64_t width = model.config().layers[heads[i].layer].attention.d_value;
    bytes += (keys + width * width) * sizeof(double);
    if (i == 0 || heads[i].layer != heads[i - 1].layer) bytes += model.attention_bytes(heads[i].layer);
  }
  return bytes;
}

OwnedMatrix<double> widened(MatrixView<const float> values) {
  OwnedMatrix<double> wide(values.rows, values.cols);
  copy_rows(values, wide.view());
  return wide;
}

const OwnedMatrix<double>& LayerWritesObserver::output_matrix(std::size_t layer) {
  if (output_layer_ == layer) return output_;
  const model::Lease<model::AttentionWeights> weights = model_->attention(layer);
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

std::uint64_t writes_bytes(const model::Model& model, const input::Batch& batch,
                           std::span<const std::size_t> layers, const WritesKept& kept) {
  const model::ModelConfig& config = model.config();
  std::uint64_t rows = 0;
  for (const input::Sequence& sequence : batch.sequences)
    rows += std::max<std::uint64_t>(sequence.queries(), sequence.target ? sequence.target->queries() : 0);
  std::uint64_t width = 0;
  std::uint64_t bytes = 0;
  for (const std::size_t layer : layers) {
    const model::AttentionConfig& attention = config.layers.at(layer).attention;
    const std::uint64_t heads = std::uint64_t{attention.heads} * attention.d_value;
    width = std::max(width, heads);
    bytes += model.attention_bytes(layer) + kept.of_output * heads * config.d_output * sizeof(double);
  }
  return bytes + rows * (kept.of_heads * width + kept.of_stream * config.d_model) * sizeof(double);
}

}  // namespace attnctl::analysis
