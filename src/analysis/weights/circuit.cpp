#include "analysis/weights/circuit.hpp"

#include <algorithm>

#include "analysis/head_axes.hpp"
#include "linalg/gemm.hpp"

namespace attnctl::analysis {

void CircuitFactor::read_stored(std::size_t head, MatrixView<double> out) const {
  const MatrixView<const float> slice = stored(head);
  if (by_rows_) {
    for (std::size_t c = 0; c < width_; ++c) std::ranges::copy(slice.row(c), out.row(c).begin());
  } else {
    constexpr std::size_t block = 16;  // number of rows: two cache lines of doubles per column
    for (std::size_t first = 0; first < slice.rows; first += block) {
      const std::size_t last = std::min(first + block, slice.rows);
      for (std::size_t c = 0; c < width_; ++c) {
        for (std::size_t r = first; r < last; ++r) out(c, r) = static_cast<double>(slice(r, c));
      }
    }
  }
}

MatrixView<double> CircuitFactor::read_columns(std::size_t head, OwnedMatrix<double>& buffer) const {
  if (buffer.rows() != width_ || buffer.cols() != dimension())
    buffer = OwnedMatrix<double>(width_, dimension());
  const MatrixView<double> out = buffer.view();
  if (other_.data == nullptr) {
    read_stored(head, out);
  } else {
    OwnedMatrix<double> slice(width_, inner_dimension());
    read_stored(head, slice.view());
    OwnedMatrix<double> other(other_.rows, other_.cols);
    for (std::size_t r = 0; r < other_.rows; ++r)
      std::ranges::copy(other_.row(r), other.view().row(r).begin());
    if (other_by_rows_) {
      linalg::gemm_nn(slice.view(), other.view(), out);
    } else {
      linalg::gemm_nt(slice.view(), other.view(), out);
    }
  }
  for (std::size_t c = 0; c < width_; ++c) {
    const auto column = out.row(c);
    for (std::size_t r = 0; r < gain_.size(); ++r) column[r] *= gain_[r];
  }
  return out;
}

OwnedMatrix<double> form_circuit(const CircuitFactors& factors, std::size_t head) {
  const OwnedMatrix<double> left = factors.left.columns(head);
  const OwnedMatrix<double> right = factors.right.columns(head);
  return linalg::product_tn(left.view(), right.view());
}

std::span<const float> folded_gain(const model::Model& model, std::size_t layer) {
  const model::ModelConfig& config = model.config();
  const model::LayerConfig& here = config.layers.at(layer);
  const auto gain = [](const model::NormConfig& norm,
                       const model::NormWeights& weights) -> std::span<const float> {
    if (norm.kind == model::NormKind::none) return {};
    return weights.gain;
  };
  if (here.place == model::NormPlace::none || here.place == model::NormPlace::output) return {};
  if (here.place != model::NormPlace::post && here.attention_normed)
    return gain(here.norm, model.layer(layer)->attention_norm);
  const bool begins_decoder = here.component == model::Component::decoder && here.number == 0;
  if (begins_decoder) return gain(config.decoder->embedding.norm, model.target_embedding()->norm);
  if (layer > 0) {
    if (here.place != model::NormPlace::post) return {};
    const model::LayerConfig& below = config.layers.at(layer - 1);
    const model::Lease<model::LayerWeights> weights = model.layer(layer - 1);
    if (below.convolution) return gain(below.norm, weights->convolution_norm);
    return gain(below.norm, below.mlp.width > 0 ? weights->mlp_norm : weights->attention_norm);
  }
  if (model.embedding()->projection.present() && !config.embedding.projected_first) return {};
  return gain(config.embedding.norm, model.embedding()->norm);
}

/// Returns the gain of the last norm of the encoder, before the keys and values of cross-attention.
static std::span<const float> memory_gain(const model::Model& model) {
  const model::ModelConfig& config = model.config();
  if (config.decoder.value().encoder_norm.kind != model::NormKind::none) return model.encoder_norm().gain;
  std::size_t last = 0;
  while (config.layers.at(last + 1).component == model::Component::encoder) ++last;
  if (config.layers[last].place != model::NormPlace::post) return {};
  return model.layer(last)->mlp_norm.gain;
}

std::optional<ProjectionShape> projection_shape(const model::ModelConfig& config, std::size_t layer,
                                                Projection projection) {
  const model::AttentionConfig& attention = config.layers.at(layer).attention;
  if (projection == Projection::query) return ProjectionShape{config.d_model, attention.d_head};
  if (projection == Projection::key) return ProjectionShape{config.d_key_input, attention.d_head};
  const bool is_value = projection == Projection::value;
  if (!(is_value ? attention.value : attention.output).weight) return std::nullopt;
  return ProjectionShape{is_value ? config.d_value_input : config.d_output, attention.d_value};
}

std::optional<CircuitFactor> projection_factor(const model::Model& model, std::size_t layer,
                                               Projection projection, bool fold_norm) {
  const model::Lease<model::AttentionWeights> weights = model.attention(layer);
  const model::AttentionConfig& attention = model.config().layers.at(layer).attention;
  const model::Linear* const linears[] = {&weights->query, &weights->key, &weights->value, &weights->output};
  const model::Linear& linear = *linears[static_cast<std::size_t>(projection)];
  if (!linear.present()) return std::nullopt;
  if (projection == Projection::output) return CircuitFactor::of_inputs(linear, attention.d_value);
  const bool is_query = projection == Projection::query;
  std::vector<std::size_t> slices;
  for (std::size_t head = 0; head < attention.heads; ++head)
    slices.push_back(is_query ? attention.query_slice(head) : attention.kv_head(head));
  const std::size_t width = projection == Projection::value ? attention.d_value : attention.d_head;
  CircuitFactor factor = CircuitFactor::of_outputs(linear, width, std::move(slices));
  if (!fold_norm) return factor;
  const bool of_memory = !is_query && model.config().layers[layer].component == model::Component::cross;
  factor.fold(of_memory ? memory_gain(model) : folded_gain(model, layer));
  return factor;
}

std::optional<CircuitFactors> circuit_factors(const model::Model& model, std::size_t layer, Circuit circuit,
                                              bool fold_norm) {
  const bool is_qk = circuit == Circuit::qk;
  auto left = projection_factor(model, layer, is_qk ? Projection::query : Projection::value, fold_norm);
  auto right = projection_factor(model, layer, is_qk ? Projection::key : Projection::output, fold_norm);
  if (!left || !right) return std::nullopt;
  return CircuitFactors{std::move(*left), std::move(*right)};
}

std::vector<HeadGroup> group_heads(const std::vector<model::HeadId>& heads,
                                   std::span<const std::size_t> item_of_head, bool across_layers) {
  std::vector<HeadGroup> groups;
  const auto group_of = [&](model::HeadId head) { return across_layers ? 0 : head.layer; };
  for_each_group(heads, group_of, [&](std::span<const model::HeadId> of_group) {
    HeadGroup& group = groups.emplace_back();
    group.heads = of_group;
    if (!across_layers) group.layer = of_group.front().layer;
    const auto first = static_cast<std::size_t>(of_group.data() - heads.data());
    for (const std::size_t item : item_of_head.subspan(first, of_group.size())) {
      const auto found = std::ranges::find(group.items, item);
      group.place.push_back(static_cast<std::size_t>(found - group.items.begin()));
      if (found == group.items.end()) group.items.push_back(item);
    }
    while (groups[group.same].items != group.items || groups[group.same].place != group.place) ++group.same;
  });
  return groups;
}

}  // namespace attnctl::analysis
