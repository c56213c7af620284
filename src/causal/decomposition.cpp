#include "causal/decomposition.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.hpp"
#include "causal/frozen_norm.hpp"
#include "causal/layer_use.hpp"
#include "forward/attention/attention.hpp"
#include "forward/block.hpp"
#include "linalg/matrix.hpp"

namespace attnctl::causal {
namespace {

using linalg::Matrix;
using model::NormPlace;

/// A sum of rows, [rows, width]. Linear maps act on each row.
class RowSum {
 public:
  [[nodiscard]] const Matrix& rows() const { return rows_; }
  [[nodiscard]] std::size_t width() const { return rows_.shape(1); }
  [[nodiscard]] std::size_t size() const { return rows_.shape(0); }

  void add(std::span<const double> row) {
    Matrix grown = Matrix::from_shape({size() + 1, row.size()});
    std::ranges::copy(rows_, grown.begin());
    std::ranges::copy(row, grown.data() + size() * row.size());
    rows_ = std::move(grown);
  }
  void add(const RowSum& other) {
    for (std::size_t r = 0; r < other.size(); ++r)
      add({other.rows_.data() + r * other.width(), other.width()});
  }
  void scale(double factor) { rows_ *= factor; }
  [[nodiscard]] std::vector<double> total() const {
    std::vector<double> sum(width(), 0.0);
    for (std::size_t r = 0; r < size(); ++r) {
      for (std::size_t c = 0; c < width(); ++c) sum[c] += rows_(r, c);
    }
    return sum;
  }
  /// Multiplies the rows by a weight, and adds its bias to row `constant`.
  void project(const model::Linear& linear, std::size_t constant) {
    const OwnedMatrix<double> weight = linear.in_out_double();
    rows_ = linalg::dot(rows_, linalg::to_matrix(weight.view()));
    for (std::size_t c = 0; c < linear.bias.size(); ++c) rows_(constant, c) += double{linear.bias[c]};
  }
  /// Multiplies column c of each row by factors[c].
  void scale_columns(const std::vector<double>& factors) {
    for (std::size_t r = 0; r < size(); ++r) {
      for (std::size_t c = 0; c < width(); ++c) rows_(r, c) *= factors[c];
    }
  }
  /// Applies a norm whose mean and scale are those of the sum. `scale_of` has the values that determine the
  /// scale, if it is not the sum. Adds the bias to row `constant`, if given.
  void normalise(const model::NormConfig& config, const model::NormWeights& weights,
                 std::optional<std::size_t> constant, std::span<const double> scale_of = {}) {
    if (config.kind == model::NormKind::none) return;
    const std::vector<double> sum = total();
    const FrozenNorm norm(config, weights, scale_of.empty() ? sum : scale_of);
    for (std::size_t r = 0; r < size(); ++r) norm.apply({rows_.data() + r * width(), width()});
    for (std::size_t c = 0; constant && c < weights.bias.size(); ++c)
      rows_(*constant, c) += double{weights.bias[c]};
  }

 private:
  Matrix rows_ = Matrix::from_shape({0, 0});
};

/// The stream of one token while its layers are added.
struct Stream {
  std::vector<Writer> writers;
  RowSum sum;

  void add(Writer writer, std::span<const double> row) {
    writers.push_back(writer);
    sum.add(row);
  }
  /// Passes a norm with its scale frozen. Its bias is a new part.
  void pass(const model::NormConfig& config, const model::NormWeights& weights, std::size_t layer) {
    sum.normalise(config, weights, std::nullopt);
    if (weights.bias.empty() || config.kind == model::NormKind::none) return;
    add({Writer::Origin::norm_bias, layer, 0}, std::vector<double>(weights.bias.begin(), weights.bias.end()));
  }
};

template <typename Value>
std::vector<double> row_of(MatrixView<const Value> rows, std::size_t r) {
  return {rows.row(r).begin(), rows.row(r).end()};
}

/// Returns what the heads and the output bias of a layer add to the stream, given the `z` of one token.
Stream attention_parts(const model::LayerConfig& config, const model::LayerWeights& weights,
                       std::span<const double> z, std::size_t layer) {
  Stream parts;
  const std::size_t width = config.attention.d_value;
  const OwnedMatrix<double> output = weights.output.in_out_double();
  std::vector<double> row(output.cols());
  for (std::size_t head = 0; head < config.attention.heads; ++head) {
    std::ranges::fill(row, 0.0);
    for (std::size_t c = 0; c < width; ++c) {
      const double value = z[head * width + c];
      for (std::size_t d = 0; d < row.size(); ++d) row[d] += value * output(head * width + c, d);
    }
    parts.add({Writer::Origin::head, layer, head}, row);
  }
  if (!weights.output.bias.empty())
    parts.add({Writer::Origin::attention_bias, layer, 0},
              std::vector<double>(weights.output.bias.begin(), weights.output.bias.end()));
  if (config.place == NormPlace::output) parts.pass(config.norm, weights.attention_norm, layer);
  if (config.place == NormPlace::both) parts.pass(config.norm, weights.attention_output_norm, layer);
  parts.sum.scale(double{config.residual_multiplier});
  return parts;
}

/// Returns the first layer of the stack that `layer` belongs to: of the decoder, or 0.
std::size_t first_layer(const model::ModelConfig& config, std::size_t layer) {
  const std::size_t last = std::min(layer, config.layers.size() - 1);
  std::size_t first = last;
  const bool target = forward::needs_target(config.layers[last].component);
  while (first > 0 && forward::needs_target(config.layers[first - 1].component) == target) --first;
  return first;
}

/// Returns the stream of the token at `position` after the layers [begin, end), where `begin` is the first
/// layer of a stack. A norm that the stream passes on the way is linear with its scale frozen; what its bias
/// adds is a part.
template <typename Value>
Stream stream_after(const model::Model& model, const RecordedValues<Value>& recorded, std::size_t position,
                    std::size_t begin, std::size_t end, forward::RunContext& context) {
  const model::ModelConfig& config = model.config();
  Stream stream;
  stream.add({}, row_of(recorded.streams[begin].view(), position));
  for (std::size_t i = begin; i < end; ++i) {
    const model::LayerConfig& at = config.layers[i];
    const LayerUse weights(model, i, context);
    if (at.convolution)
      fail(Status::bad_input, "{}: sums over writers do not support models with a convolution",
           escaped(model.name()));
    if (i > begin && at.place == NormPlace::stream) stream.pass(at.norm, weights->attention_norm, i);
    const Stream attention = attention_parts(at, *weights, row_of(recorded.z[i].view(), position), i);
    stream.writers.insert(stream.writers.end(), attention.writers.begin(), attention.writers.end());
    stream.sum.add(attention.sum);
    if (at.place == NormPlace::post) stream.pass(at.norm, weights->attention_norm, i);
    if (at.mlp.width == 0) continue;
    if (at.place == NormPlace::stream) stream.pass(at.norm, weights->mlp_norm, i);
    std::vector<double> mlp = row_of(recorded.mlp[i].view(), position);
    for (double& value : mlp) value *= double{at.residual_multiplier};
    stream.add({Writer::Origin::mlp, i, 0}, mlp);
    if (at.place == NormPlace::post) stream.pass(at.norm, weights->mlp_norm, i);
  }
  return stream;
}

/// Returns the stream of the token at `position` before the attention of `layer` (before its norm, except for
/// NormPlace::stream), or before the final norm if `layer` is the number of layers.
template <typename Value>
Stream stream_of(const model::Model& model, const RecordedValues<Value>& recorded, std::size_t position,
                 std::size_t layer, forward::RunContext& context) {
  const model::ModelConfig& config = model.config();
  const std::size_t begin = first_layer(config, layer);
  Stream stream = stream_after(model, recorded, position, begin, layer, context);
  if (layer > begin && layer < config.layers.size() && config.layers[layer].place == NormPlace::stream)
    stream.pass(config.layers[layer].norm, LayerUse(model, layer, context)->attention_norm, layer);
  return stream;
}

/// Returns the output of the encoder, with its norm, for the token at `position`: what the keys of a layer of
/// cross-attention read.
template <typename Value>
Stream memory_of(const model::Model& model, const RecordedValues<Value>& recorded, std::size_t position,
                 std::size_t cross_layer, forward::RunContext& context) {
  const std::size_t end = first_layer(model.config(), cross_layer);
  Stream stream = stream_after(model, recorded, position, 0, end, context);
  stream.pass(model.config().decoder->encoder_norm, model.encoder_norm(), end - 1);
  return stream;
}

/// Returns the frozen factors f(x) / x of a function of each element; its slope at 0 where x is 0.
std::vector<double> frozen_activation(model::Activation activation, const std::vector<double>& x) {
  std::vector<double> factors;
  for (const double u : x) {
    const double root = std::sqrt(2 / std::numbers::pi);
    switch (activation) {
      case model::Activation::gelu_erf:
        factors.push_back(0.5 * (1 + std::erf(u / std::sqrt(2.0))));
        break;
      case model::Activation::gelu_tanh:
        factors.push_back(0.5 * (1 + std::tanh(root * (u + 0.044715 * u * u * u))));
        break;
      case model::Activation::silu:
        factors.push_back(1 / (1 + std::exp(-u)));
        break;
      case model::Activation::relu:
        factors.push_back(u > 0 ? 1 : 0);
        break;
      case model::Activation::relu_squared:
        factors.push_back(u > 0 ? u : 0);
        break;
      case model::Activation::tanh:
        factors.push_back(u == 0 ? 1 : std::tanh(u) / u);
        break;
    }
  }
  return factors;
}

OwnedMatrix<double> owned(const Matrix& values, std::size_t rows) {
  OwnedMatrix<double> copy(rows, values.shape(1));
  std::copy_n(values.data(), copy.values().size(), copy.values().begin());
  return copy;
}

/// The queries or keys of one head as a sum of rows; the last row has the biases.
struct ProjectedParts {
  std::vector<Writer> writers;
  RowSum sum;
};

/// A projection to queries or keys: its weight, the slice of the head, and its norm.
struct HeadProjection {
  const model::Linear& linear;
  std::size_t slice = 0;
  const model::NormWeights& norm;
  bool of_memory = false;  // it reads the output of the encoder
};

void rotate_row(const model::RotaryConfig& config, const forward::RotaryTable& table, std::size_t position,
                std::span<double> row) {
  const std::size_t pairs = config.dims / 2;
  const bool half = config.pairing == model::RotaryPairing::half;
  for (std::size_t j = 0; j < pairs; ++j) {
    const std::size_t a = half ? j : 2 * j, b = half ? j + pairs : 2 * j + 1;
    const double cosine = table.cosine(position, j), sine = table.sine(position, j);
    const double x = row[a], y = row[b];
    row[a] = x * cosine - y * sine;
    row[b] = y * cosine + x * sine;
  }
}

template <typename Value>
ProjectedParts projected_parts(const model::Model& model, const RecordedValues<Value>& recorded,
                               std::size_t layer, std::size_t position, const HeadProjection& to,
                               forward::RunContext& context) {
  const model::LayerConfig& at = model.config().layers[layer];
  const model::AttentionConfig& config = at.attention;
  Stream stream = to.of_memory ? memory_of(model, recorded, position, layer, context)
                               : stream_of(model, recorded, position, layer, context);
  ProjectedParts parts{std::move(stream.writers), std::move(stream.sum)};
  const std::size_t constant = parts.sum.size();
  parts.sum.add(std::vector<double>(parts.sum.width(), 0.0));
  if (!to.of_memory && (at.place == NormPlace::pre || at.place == NormPlace::both))
    parts.sum.normalise(at.attention_norm(), LayerUse(model, layer, context)->attention_norm, constant);
  const std::size_t width = config.d_head;
  std::vector<double> scale_of;  // all heads, if one norm covers them
  model::NormWeights norm = to.norm;
  if (config.head_norm_span == model::HeadNormSpan::whole) {
    RowSum all = parts.sum;
    all.project(to.linear, constant);
    scale_of = all.total();
  }
  if (config.head_norm_span != model::HeadNormSpan::shared) {
    const auto slice = [&](std::span<const float> values) {
      return values.empty() ? values : values.subspan(to.slice * width, width);
    };
    norm = {slice(norm.gain), slice(norm.bias)};
  }
  parts.sum.project(to.linear.outputs(to.slice * width, width), constant);
  parts.sum.normalise(config.head_norm, norm, constant, scale_of);
  if (config.rotary) {
    forward::RotaryTables tables;
    const std::size_t length = recorded.streams[layer].rows();
    const forward::RotaryTable& table = forward::rotary_table(tables, *config.rotary, length);
    Matrix rotated = parts.sum.rows();
    for (std::size_t r = 0; r < rotated.shape(0); ++r)
      rotate_row(*config.rotary, table, position, {rotated.data() + r * width, width});
    RowSum sum;
    for (std::size_t r = 0; r < rotated.shape(0); ++r) sum.add({rotated.data() + r * width, width});
    parts.sum = std::move(sum);
  }
  return parts;
}

}  // namespace

template <typename Value>
LogitParts logit_parts(const model::Model& model, const RecordedValues<Value>& recorded, std::size_t position,
                       std::span<const std::int64_t> tokens, forward::RunContext& context) {
  const model::ModelConfig& config = model.config();
  Stream stream = stream_of(model, recorded, position, config.layers.size(), context);
  RowSum& sum = stream.sum;
  const std::size_t constant = sum.size();
  sum.add(std::vector<double>(sum.width(), 0.0));
  sum.normalise(config.final_norm, model.final_norm(), constant);
  const model::Lease<model::HeadWeights> head = model.head(&context.pool);
  if (head->projection.present()) sum.project(head->projection, constant);
  if (config.head.transform) {
    sum.project(head->transform, constant);
    sum.scale_columns(frozen_activation(config.head.activation, sum.total()));
    sum.normalise(config.head.norm, head->transform_norm, constant);
  }
  LogitParts parts{std::move(stream.writers), OwnedMatrix<double>(constant, tokens.size()), {}};
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    RowSum logit = sum;
    logit.project(head->decoder.outputs(static_cast<std::size_t>(tokens[t]), 1), constant);
    logit.scale(double{config.head.multiplier});
    const double value = logit.total()[0], cap = double{config.head.soft_cap};
    if (cap > 0 && value != 0) logit.scale(cap * std::tanh(value / cap) / value);
    for (std::size_t w = 0; w < constant; ++w) parts.parts(w, t) = logit.rows()(w, 0);
    parts.constant.push_back(logit.rows()(constant, 0));
  }
  return parts;
}

template <typename Value>
ScoreParts score_parts(const model::Model& model, const RecordedValues<Value>& recorded, model::HeadId head,
                       std::size_t query, std::size_t key, forward::RunContext& context) {
  const model::LayerConfig& layer = model.config().layers.at(head.layer);
  const model::AttentionConfig& config = layer.attention;
  if (config.kind.rule == model::AttentionKind::Rule::linear || config.clip > 0)
    fail(Status::bad_input,
         "{}: layer {}: scores are no sums over writers in linear attention, and if queries and keys are "
         "clamped",
         escaped(model.name()), model::layer_name(model.config(), head.layer));
  const LayerUse weights(model, head.layer, context);
  ProjectedParts q =
      projected_parts(model, recorded, head.layer, query,
                      {weights->query, config.query_slice(head.head), weights->query_norm}, context);
  ProjectedParts k = projected_parts(model, recorded, head.layer, key,
                                     {weights->key, config.kv_head(head.head), weights->key_norm,
                                      layer.component == model::Component::cross},
                                     context);
  Matrix keys_t = Matrix::from_shape({k.sum.width(), k.sum.size()});
  for (std::size_t r = 0; r < k.sum.size(); ++r) {
    for (std::size_t c = 0; c < k.sum.width(); ++c) keys_t(c, r) = k.sum.rows()(r, c);
  }
  Matrix products = linalg::dot(q.sum.rows(), keys_t);
  products *= config.scale;
  double total = 0;
  for (const double value : products) total += value;
  if (const double cap = double{config.soft_cap}; cap > 0 && total != 0)
    products *= cap * std::tanh(total / cap) / total;
  return {std::move(q.writers), std::move(k.writers), owned(products, products.shape(0))};
}

template LogitParts logit_parts(const model::Model&, const RecordedValues<float>&, std::size_t,
                                std::span<const std::int64_t>, forward::RunContext&);
template ScoreParts score_parts(const model::Model&, const RecordedValues<float>&, model::HeadId, std::size_t,
                                std::size_t, forward::RunContext&);
template LogitParts logit_parts(const model::Model&, const RecordedValues<double>&, std::size_t,
                                std::span<const std::int64_t>, forward::RunContext&);
template ScoreParts score_parts(const model::Model&, const RecordedValues<double>&, model::HeadId,
                                std::size_t, std::size_t, forward::RunContext&);

std::string name_of(const Writer& writer, const model::ModelConfig& config) {
  const std::string layer =
      writer.kind == Writer::Origin::embedding ? "" : model::layer_name(config, writer.layer);
  switch (writer.kind) {
    case Writer::Origin::embedding:
      return "embedding";
    case Writer::Origin::head:
      return model::head_name(config, {writer.layer, writer.head});
    case Writer::Origin::attention_bias:
      return "attention bias " + layer;
    case Writer::Origin::mlp:
      return "mlp " + layer;
    case Writer::Origin::norm_bias:
      return "norm bias " + layer;
  }
  return {};
}

}  // namespace attnctl::causal
