#include "causal/gradient.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "causal/backward.hpp"
#include "forward/layers/layers.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::causal {
namespace {

/// A query of a sequence whose logits the number depends on. `index` is its index in ScoredQueries::queries.
struct LogitQuery {
  std::size_t sequence = 0, query = 0, index = 0;
};

/// The number of each sequence that is differentiated, as a function of logits.
struct Objective {
  /// Returns the queries of a sequence that it depends on.
  std::function<std::vector<LogitQuery>(std::size_t sequence)> queries;
  /// Replaces the logits of a query by the derivatives with respect to them.
  std::function<void(const LogitQuery& query, std::span<float> logits)> differentiate;
};

/// The values of a layer that its gradient needs.
struct RecomputedLayer {
  FloatRows x;           // the residual stream before the attention output is added
  FloatRows attention;   // the output of the attention, before norms and the residual multiplier
  FloatRows sum;         // x + attention term
  FloatRows attended;    // `sum`, normalised if the norms are post-norm
  FloatRows mlp_input;   // the input of the MLP
  FloatRows mlp_output;  // before norms and the residual multiplier; empty if not needed
  FloatRows mlp_sum;     // the stream with the MLP term; empty if not needed
  FloatRows output;      // the output of the layer; empty if not needed
};

/// The sequences of a Block between two layers.
struct BackwardState {
  forward::Block inputs, decoder, cross;
  FloatRows d;         // of the residual stream
  FloatRows d_memory;  // of the encoder's output; empty without a decoder
  FloatRows embedded;  // the input of the first layer; empty if no layer has a convolution

  [[nodiscard]] const forward::Block& block(model::Component component) const {
    if (component == model::Component::decoder) return decoder;
    return component == model::Component::cross ? cross : inputs;
  }
};

bool reads_normalised(const model::LayerConfig& layer) {
  return layer.place == model::NormPlace::pre || layer.place == model::NormPlace::both;
}

model::NormConfig input_norm(const model::LayerConfig& layer, const model::NormConfig& config) {
  return reads_normalised(layer) ? config : model::NormConfig{};
}

/// The backward pass of a batch.
class BackwardPass {
 public:
  BackwardPass(const model::Model& model, const input::Batch& batch,
               const std::vector<RecordedSequence>& recorded, forward::RunContext& context,
               const BackwardPath& path)
      : model_(model),
        config_(model.config()),
        batch_(batch),
        recorded_(recorded),
        context_(context),
        pool_(context.pool),
        path_(path),
        results_(batch.sequences.size()) {}

  std::vector<HeadGradients> run(const Objective& objective) {
    const std::size_t layers = config_.layers.size();
    for (HeadGradients& result : results_) result.d_z.resize(layers);
    std::vector<BackwardState> states;
    for (forward::Block& block : forward::cut_into_blocks(batch_, context_.packed_rows)) {
      states.push_back(begin(std::move(block)));
      back_logits(objective, states.back());
    }
    model_.evict_converted_head();
    if (context_.streamed_rows > 0) model_.evict_head();
    if (context_.progress != nullptr)
      context_.progress->begin("gradient", (layers - path_.first_layer) * states.size(), "layer");
    std::vector<std::vector<BackwardState>> without(
        layers);  // [dropped layer][Blocks], empty before this layer
    for (std::size_t index = layers; index-- > path_.first_layer;) {
      for (std::size_t b = 0; b < states.size(); ++b) {
        BackwardState& state = states[b];
        const forward::Block& block = state.block(config_.layers[index].component);
        const model::Lease<model::LayerWeights> weights = model_.layer(index, &pool_);
        const RecomputedLayer at = recompute(state, index, *weights);
        if (path_.without_layer && index > path_.first_layer) {
          without[index].push_back(state);
          (void)back_layer(without[index].back(), index, *weights, at, true);
        }
        const FloatRows d_z = back_layer(state, index, *weights, at, false);
        for (const forward::BlockSequence& place : block.sequences)
          results_[place.index].d_z[index] = copy_of(rows_of(d_z, place));
        for (std::size_t dropped = index + 1; path_.without_layer && dropped < layers; ++dropped) {
          const FloatRows changed = back_layer(without[dropped][b], index, *weights, at, false);
          for (const forward::BlockSequence& place : block.sequences)
            path_.without_layer(dropped, index, place.index, rows_of(changed, place));
        }
        if (context_.progress != nullptr) context_.progress->advance();
      }
      release(index);
    }
    if (context_.progress != nullptr) context_.progress->end();
    return std::move(results_);
  }

 private:
  [[nodiscard]] bool begins_decoder(std::size_t index) const {
    return index > 0 && index < config_.layers.size() &&
           forward::needs_target(config_.layers[index].component) &&
           !forward::needs_target(config_.layers[index - 1].component);
  }

  /// Releases the weights that the gradient of a layer used, except those of the layer before it.
  void release(std::size_t index) const {
    const std::size_t next = index > 0 ? model_.shared_with(index - 1) : config_.layers.size();
    const auto evict = [&](std::size_t used) {
      if (model_.shared_with(used) == next) return;
      model_.evict_converted_layer(used);
      if (context_.streamed_rows > 0) model_.evict_layer(used);
    };
    evict(index);
    if (is_normed_next(index)) evict(index + 1);
  }

  BackwardState begin(forward::Block block) const {
    BackwardState state;
    state.inputs = std::move(block);
    if (config_.decoder) {
      state.decoder = forward::in_component(state.inputs, model::Component::decoder, batch_);
      state.cross = forward::in_component(state.inputs, model::Component::cross, batch_);
      state.d_memory = FloatRows(state.inputs.rows, config_.d_model);
    }
    const auto convolves = [](const model::LayerConfig& layer) { return layer.convolution != nullptr; };
    if (std::ranges::any_of(config_.layers, convolves)) {
      state.embedded = FloatRows(state.inputs.rows, config_.d_model);
      forward::embed(pool_, model_, batch_, state.inputs, state.embedded.view());
    }
    return state;
  }

  /// Stacks recorded rows of the sequences of a Block; rows_of(sequence) returns those of a sequence.
  template <typename RowsOf>
  [[nodiscard]] FloatRows stack(const forward::Block& block, const RowsOf& rows_of) const {
    FloatRows rows;
    for (const forward::BlockSequence& place : block.sequences) {
      const FloatView from = rows_of(recorded_[place.index]);
      if (rows.rows() == 0) rows = FloatRows(block.rows, from.cols);
      for (std::size_t r = 0; r < from.rows; ++r)
        std::ranges::copy(from.row(r), rows.view().row(place.first_query + r).begin());
    }
    return rows;
  }

  /// Sets state.d to the derivatives of the residual stream after the last layer.
  void back_logits(const Objective& objective, BackwardState& state) {
    const forward::Block& block = state.block(config_.layers.back().component);
    state.d = FloatRows(block.rows, config_.d_model);
    std::vector<LogitQuery> queries;
    std::vector<std::size_t> rows;  // of the Block, of each query
    for (const forward::BlockSequence& place : block.sequences) {
      for (const LogitQuery& query : objective.queries(place.index)) {
        queries.push_back(query);
        rows.push_back(place.first_query + query.query);
      }
    }
    const std::size_t step = forward::logits_rows(model_.head(&pool_)->decoder.out());
    for (std::size_t first = 0; first < queries.size(); first += step) {
      const std::size_t count = std::min(step, queries.size() - first);
      FloatRows x(count, config_.d_model);
      for (std::size_t i = 0; i < count; ++i)
        std::ranges::copy(
            recorded_[queries[first + i].sequence].final_stream.view().row(queries[first + i].query),
            x.view().row(i).begin());
      const FloatRows d = back_output_head(objective, std::span(queries).subspan(first, count), x.view());
      for (std::size_t i = 0; i < count; ++i)
        linalg::kernels().add(d.view().row(i), state.d.view().row(rows[first + i]));
    }
  }

  /// Returns the derivatives of the rows x [queries, d] of the residual stream after the last layer.
  [[nodiscard]] FloatRows back_output_head(const Objective& objective, std::span<const LogitQuery> queries,
                                           FloatView x) {
    const model::HeadConfig& head = config_.head;
    const model::Lease<model::HeadWeights> weights = model_.head(&pool_);
    FloatRows d = copy_of(forward::logits_of(pool_, model_, head_buffers_, x));
    forward::for_rows(pool_, d.rows(), d.cols(), [&](std::size_t r) {
      const std::span<float> row = d.view().row(r);
      std::vector<float> slopes(head.soft_cap > 0 ? row.size() : 0, 1);  // of the soft cap
      for (std::size_t c = 0; c < slopes.size(); ++c)
        slopes[c] = 1 - (row[c] / head.soft_cap) * (row[c] / head.soft_cap);
      objective.differentiate(queries[r], row);
      if (!slopes.empty()) linalg::kernels().multiply(slopes, row);
      if (head.multiplier != 1) linalg::kernels().scale(double{head.multiplier}, row);
    });
    d = back_dense(pool_, weights->decoder, d.view());
    if (head.transform) {
      FloatRows stream = normalised(pool_, config_.final_norm, model_.final_norm(), x);
      if (weights->projection.present()) stream = projected(pool_, weights->projection, stream.view());
      FloatRows slopes = projected(pool_, weights->transform, stream.view());
      stream = FloatRows(slopes.rows(), slopes.cols());
      for (std::size_t i = 0; i < slopes.values().size(); ++i) {
        const Activated inner = activated(head.activation, slopes.values()[i]);
        stream.values()[i] = inner.value;
        slopes.values()[i] = inner.slope;
      }
      back_norm(pool_, head.norm, weights->transform_norm, stream.view(), d.view());
      linalg::kernels().multiply(slopes.values(), d.values());
      d = back_dense(pool_, weights->transform, d.view());
    }
    if (weights->projection.present()) d = back_dense(pool_, weights->projection, d.view());
    back_norm(pool_, config_.final_norm, model_.final_norm(), x, d.view());
    return d;
  }

  /// Returns the output of the MLP of a layer for its input, before norms and the residual multiplier.
  [[nodiscard]] FloatRows mlp_output(const model::LayerConfig& layer, const model::LayerWeights& weights,
                                     FloatView input) {
    model::LayerConfig plain = layer;
    plain.place = model::NormPlace::none;
    plain.residual_multiplier = 1;
    FloatRows x = copy_of(input);
    FloatRows output(x.rows(), x.cols());
    forward::add_mlp(pool_, plain, weights, mlp_buffers_, x.view(), nullptr,
                     [&](std::size_t first, MatrixView<float> term) {
                       for (std::size_t r = 0; r < term.rows; ++r)
                         std::ranges::copy(term.row(r), output.view().row(first + r).begin());
                     });
    return output;
  }

  /// Returns x plus the term of an output of attention or MLP.
  [[nodiscard]] FloatRows with_term(const model::LayerConfig& layer, const FloatRows& x,
                                    const FloatRows& output, const model::NormWeights& norm_weights,
                                    const model::NormWeights& output_norm) const {
    FloatRows sum = x;
    FloatRows term = output;
    if (layer.place == model::NormPlace::output)
      forward::apply_norm(pool_, layer.norm, norm_weights, term.view(), term.view());
    if (layer.place == model::NormPlace::both)
      forward::apply_norm(pool_, layer.norm, output_norm, term.view(), term.view());
    forward::add_rows(pool_, term.view(), sum.view(), layer.residual_multiplier);
    return sum;
  }

  /// Returns true if the output of a layer is the input of a norm that is not part of the next layer's
  /// attention or MLP: the norm of the encoder, or of NormPlace::stream.
  [[nodiscard]] bool is_normed_next(std::size_t index) const {
    if (index + 1 == config_.layers.size()) return false;
    return begins_decoder(index + 1) || config_.layers[index + 1].place == model::NormPlace::stream;
  }

  [[nodiscard]] RecomputedLayer recompute(const BackwardState& state, std::size_t index,
                                          const model::LayerWeights& weights) {
    const model::LayerConfig& layer = config_.layers[index];
    const forward::Block& block = state.block(layer.component);
    RecomputedLayer at;
    at.x = stack(block, [&](const RecordedSequence& one) { return one.streams[index].view(); });
    at.attention = stack(block, [&](const RecordedSequence& one) { return one.z[index].view(); });
    if (weights.output.present()) at.attention = projected(pool_, weights.output, at.attention.view());
    at.sum = with_term(layer, at.x, at.attention, weights.attention_norm, weights.attention_output_norm);
    at.attended = at.sum;
    const bool post = layer.place == model::NormPlace::post;
    if (post)
      forward::apply_norm(pool_, layer.norm, weights.attention_norm, at.sum.view(), at.attended.view());
    if (layer.mlp.width == 0) {
      at.output = at.attended;
      return at;
    }
    FloatRows stream = at.attended;
    if (layer.place == model::NormPlace::stream)
      forward::apply_norm(pool_, layer.norm, weights.mlp_norm, stream.view(), stream.view());
    const FloatRows& read = layer.parallel ? at.x : stream;
    at.mlp_input = normalised(pool_, input_norm(layer, layer.norm), weights.mlp_norm, read.view());
    const bool needs_output = is_normed_next(index) || layer.convolution != nullptr;
    const bool normed = layer.place == model::NormPlace::output || layer.place == model::NormPlace::both;
    if (!needs_output && !post && !normed) return at;
    at.mlp_output = mlp_output(layer, weights, at.mlp_input.view());
    at.mlp_sum = with_term(layer, stream, at.mlp_output, weights.mlp_norm, weights.mlp_output_norm);
    at.output = at.mlp_sum;
    if (post) forward::apply_norm(pool_, layer.norm, weights.mlp_norm, at.mlp_sum.view(), at.output.view());
    return at;
  }

  /// Returns the derivatives of an output of attention or MLP, given those of its term.
  [[nodiscard]] FloatRows back_term(const model::LayerConfig& layer, const FloatRows& output,
                                    const model::NormWeights& norm_weights,
                                    const model::NormWeights& output_norm, const FloatRows& d_term) const {
    FloatRows d = d_term;
    if (layer.residual_multiplier != 1) {
      for (float& value : d.values()) value *= layer.residual_multiplier;
    }
    if (layer.place == model::NormPlace::output)
      back_norm(pool_, layer.norm, norm_weights, output.view(), d.view());
    if (layer.place == model::NormPlace::both)
      back_norm(pool_, layer.norm, output_norm, output.view(), d.view());
    return d;
  }

  /// Adds `from` to `to`.
  void add(const FloatRows& from, FloatRows& to) const { forward::add_rows(pool_, from.view(), to.view()); }

  /// Changes state.d from the derivatives of the layer's output, before a convolution, to those of at.sum.
  /// Returns the derivatives of at.x that a parallel MLP adds; no rows if the MLP is not parallel. `dropped`:
  /// the MLP passes no derivative on.
  [[nodiscard]] FloatRows back_mlp_of(BackwardState& state, const model::LayerConfig& layer,
                                      const model::LayerWeights& weights, const RecomputedLayer& at,
                                      bool dropped) const {
    FloatRows parallel;
    if (layer.mlp.width > 0) {
      if (layer.place == model::NormPlace::post)
        back_norm(pool_, layer.norm, weights.mlp_norm, at.mlp_sum.view(), state.d.view());
      if (!dropped) {
        const FloatRows d_output =
            back_term(layer, at.mlp_output, weights.mlp_norm, weights.mlp_output_norm, state.d);
        FloatRows d_input = back_mlp(pool_, layer, weights, at.mlp_input.view(), d_output.view());
        back_norm(pool_, input_norm(layer, layer.norm), weights.mlp_norm,
                  layer.parallel ? at.x.view() : at.attended.view(), d_input.view());
        if (layer.parallel) {
          parallel = std::move(d_input);
        } else {
          add(d_input, state.d);
        }
      }
      if (layer.place == model::NormPlace::stream)
        back_norm(pool_, layer.norm, weights.mlp_norm, at.attended.view(), state.d.view());
    }
    if (layer.place == model::NormPlace::post)
      back_norm(pool_, layer.norm, weights.attention_norm, at.sum.view(), state.d.view());
    return parallel;
  }

  /// Changes the derivatives of what follows a layer to those of its output.
  void back_to_output(BackwardState& state, std::size_t index, const RecomputedLayer& at) const {
    FloatRows output = at.output;
    const model::LayerConfig& layer = config_.layers[index];
    const model::Lease<model::LayerWeights> weights = model_.layer(index, &pool_);
    FloatRows convolved;  // the sum before the norm of the convolution
    if (layer.convolution) {
      model::LayerConfig plain = layer;
      plain.norm = {};
      forward::Convolution convolution;
      convolution.keep(config_, state.embedded.view());
      convolved = at.output;
      convolution.add(pool_, state.block(layer.component), plain, *weights, convolved.view());
      output = normalised(pool_, layer.norm, weights->convolution_norm, convolved.view());
    }
    if (begins_decoder(index + 1)) {
      state.d = std::move(state.d_memory);
      back_norm(pool_, config_.decoder->encoder_norm, model_.encoder_norm(), output.view(), state.d.view());
    } else if (is_normed_next(index)) {
      const model::Lease<model::LayerWeights> next = model_.layer(index + 1, &pool_);
      back_norm(pool_, config_.layers[index + 1].norm, next->attention_norm, output.view(), state.d.view());
    }
    if (layer.convolution)
      back_norm(pool_, layer.norm, weights->convolution_norm, convolved.view(), state.d.view());
  }

  [[nodiscard]] static FloatView rows_of(const FloatRows& rows, const forward::BlockSequence& place) {
    return rows.view().row_range(place.first_query, place.queries);
  }

  /// Changes state.d from the derivatives of what follows a layer to those of at.x. Returns d_z. `dropped`:
  /// the heads and the MLP pass no derivative on, and d_z is 0.
  FloatRows back_layer(BackwardState& state, std::size_t index, const model::LayerWeights& weights,
                       const RecomputedLayer& at, bool dropped) {
    const model::LayerConfig& layer = config_.layers[index];
    const forward::Block& block = state.block(layer.component);
    back_to_output(state, index, at);
    const FloatRows parallel = back_mlp_of(state, layer, weights, at, dropped);
    FloatRows d_z(block.rows, layer.attention.heads * layer.attention.d_value);
    if (!dropped) {
      d_z = back_term(layer, at.attention, weights.attention_norm, weights.attention_output_norm, state.d);
      if (weights.output.present()) d_z = back_dense(pool_, weights.output, d_z.view());
    }
    if (parallel.rows() > 0) add(parallel, state.d);
    // Nothing before the first layer of a path has heads on it.
    if (dropped || index == path_.first_layer || index == 0 || begins_decoder(index)) return d_z;

    const bool cross = layer.component == model::Component::cross;
    const model::NormConfig read = input_norm(layer, layer.attention_norm());
    const FloatRows queries = normalised(pool_, read, weights.attention_norm, at.x.view());
    FloatRows memory;
    if (cross) memory = stacked_memory(state.inputs);
    AttentionDerivatives d = back_attention(
        pool_,
        {layer.attention, weights, batch_, block, queries.view(), cross ? memory.view() : queries.view()},
        d_z.view(), context_.panel_rows);
    add(d.d_keys, cross ? state.d_memory : d.d_queries);
    back_norm(pool_, read, weights.attention_norm, at.x.view(), d.d_queries.view());
    add(d.d_queries, state.d);
    return d_z;
  }

  [[nodiscard]] FloatRows stacked_memory(const forward::Block& inputs) const {
    return stack(inputs, [](const RecordedSequence& one) { return one.memory.view(); });
  }

  const model::Model& model_;
  const model::ModelConfig& config_;
  const input::Batch& batch_;
  const std::vector<RecordedSequence>& recorded_;
  forward::RunContext& context_;
  Pool& pool_;
  const BackwardPath path_;
  std::vector<HeadGradients> results_;
  forward::HeadBuffers head_buffers_;
  forward::MlpBuffers mlp_buffers_;
};

void check_differentiable(const model::Model& model, const input::Batch& batch) {
  if (!model.config().head.present)
    fail(Status::bad_input,
         "{}: gradients do not support checkpoints without an output head; give a model with an output head",
         escaped(model.name()));
  for (std::size_t i = 0; i < model.config().layers.size(); ++i) {
    if (!model.config().layers[i].attention.value.weight)
      fail(Status::bad_input, "{}: gradients do not support layers without values (W_v), such as layer {}",
           escaped(model.name()), model::layer_name(model.config(), i));
  }
  for (const input::Sequence& sequence : batch.sequences) {
    if (sequence.key_embeddings.rows() > 0 || sequence.value_embeddings.rows() > 0)
      fail(Status::bad_input, "input {}: gradients do not support separate keys or values",
           escaped(sequence.id));
  }
}

}  // namespace

std::vector<HeadGradients> loss_gradients(const model::Model& model, const input::Batch& batch,
                                          std::span<const ScoredQueries> scored,
                                          const std::vector<RecordedSequence>& recorded,
                                          forward::RunContext& context, const BackwardPath& path) {
  check_differentiable(model, batch);
  Objective loss;
  loss.queries = [&](std::size_t sequence) {
    std::vector<LogitQuery> queries;
    for (std::size_t i = 0; i < scored[sequence].queries.size(); ++i)
      queries.push_back({sequence, scored[sequence].queries[i], i});
    return queries;
  };
  loss.differentiate = [&](const LogitQuery& query, std::span<float> logits) {
    const ScoredQueries& of_sequence = scored[query.sequence];
    linalg::kernels().softmax(logits, logits);
    logits[static_cast<std::size_t>(of_sequence.targets[query.index])] -= 1;
    linalg::kernels().scale(1 / static_cast<double>(of_sequence.queries.size()), logits);
  };
  return BackwardPass(model, batch, recorded, context, path).run(loss);
}

std::vector<HeadGradients> difference_gradients(const model::Model& model, const input::Batch& batch,
                                                std::span<const ScoredQueries> scored,
                                                const AnswerTokens& answer,
                                                const std::vector<RecordedSequence>& recorded,
                                                forward::RunContext& context, const BackwardPath& path) {
  check_differentiable(model, batch);
  Objective difference;
  difference.queries = [&](std::size_t sequence) {
    std::vector<LogitQuery> queries;
    if (scored[sequence].answer) queries.push_back({sequence, *scored[sequence].answer, 0});
    return queries;
  };
  difference.differentiate = [&](const LogitQuery& /*query*/, std::span<float> logits) {
    std::ranges::fill(logits, 0.0F);
    logits[static_cast<std::size_t>(answer.right)] += 1;
    logits[static_cast<std::size_t>(answer.wrong)] -= 1;
  };
  return BackwardPass(model, batch, recorded, context, path).run(difference);
}

LinearEstimate estimate(const model::ModelConfig& config, const Intervention& intervention,
                        const RecordedSequence& recorded, const HeadGradients& gradients) {
  if (!intervention.mlps.empty()) return {};
  LinearEstimate sum{0, 0};
  for (const HeadPatch& patch : intervention.heads) {
    const std::size_t width = config.layers[patch.head.layer].attention.d_value;
    const auto of_head = [&](const OwnedMatrix<float>& all) {
      return all.view().col_range(patch.head.head * width, width);
    };
    const MatrixView<const float> z = of_head(recorded.z[patch.head.layer]),
                                  gradient = of_head(gradients.d_z[patch.head.layer]);
    double own = 0;
    for (std::size_t p = 0; p < z.rows; ++p) {
      if (!patch.by.changes(p)) continue;
      const std::span<const float> row = patch.by.row(p);
      for (std::size_t c = 0; c < width; ++c) {
        const double value = z(p, c), slope = gradient(p, c);
        own += value * slope;
        sum.change += ((row.empty() ? 0.0 : double{row[c]}) - value) * slope;
      }
    }
    sum.importance += std::abs(own);
  }
  return sum;
}

}  // namespace attnctl::causal
