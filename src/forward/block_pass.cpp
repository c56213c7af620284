#include "forward/block_pass.hpp"

#include <algorithm>

#include "base/progress.hpp"
#include "forward/attention/rows.hpp"
#include "forward/layers/dense.hpp"
#include "forward/layers/embed.hpp"
#include "forward/layers/norm.hpp"

namespace attnctl::forward {
namespace {

/// Neighbouring heads.
struct HeadRun {
  std::size_t first = 0, count = 0;
};

std::vector<HeadRun> runs_of(std::span<const std::uint8_t> wanted) {
  std::vector<HeadRun> runs;
  for (std::size_t head = 0; head < wanted.size(); ++head) {
    if (wanted[head] == 0) continue;
    if (runs.empty() || runs.back().first + runs.back().count != head) runs.push_back({head, 0});
    ++runs.back().count;
  }
  return runs;
}

/// The query slices that the wanted heads use.
std::vector<HeadRun> query_runs_of(const AttentionConfig& config, std::span<const std::uint8_t> wanted) {
  std::vector<std::uint8_t> slices(config.query_slices(), 0);
  for (std::size_t head = 0; head < wanted.size(); ++head) {
    if (wanted[head] != 0) slices[config.query_slice(head)] = 1;
  }
  return runs_of(slices);
}

/// The key/value heads that the wanted heads read.
std::vector<HeadRun> kv_runs_of(const AttentionConfig& config, std::span<const std::uint8_t> wanted) {
  std::vector<std::uint8_t> kv_wanted(config.kv_heads, 0);
  for (std::size_t head = 0; head < wanted.size(); ++head) {
    if (wanted[head] != 0) kv_wanted[config.kv_head(head)] = 1;
  }
  return runs_of(kv_wanted);
}

/// Products of one layer that can be computed together.
struct Products {
  std::vector<Dense> narrowing;  // x A of factorised projections, before the others
  std::vector<Dense> products;

  /// Only the columns of the wanted slices of out = x W + b.
  void add(std::span<const HeadRun> runs, std::size_t width, const Dense& all, Buffer& narrowed) {
    MatrixView<const float> x = all.x;
    if (all.weights.factorised()) {
      const MatrixView<float> inner = narrowed.take(x.rows, all.weights.rank());
      narrowing.push_back({x, all.weights.first_product(), inner});
      x = inner;
    }
    const Linear weights = all.weights.last_product();
    for (const HeadRun& run : runs) {
      products.push_back({x, weights.outputs(run.first * width, run.count * width),
                          all.out.col_range(run.first * width, run.count * width)});
    }
  }
  void run(Pool& pool) const {
    if (!narrowing.empty()) run_dense(pool, narrowing);
    run_dense(pool, products);
  }
};

/// The columns of the wanted slices, each `width` wide.
void clamp(Pool& pool, float limit, MatrixView<float> all, std::span<const HeadRun> runs, std::size_t width) {
  for (const HeadRun& run : runs) {
    const MatrixView<float> wanted = all.col_range(run.first * width, run.count * width);
    for_row_ranges(pool, wanted.rows, wanted.cols, [&](std::size_t first, std::size_t count) {
      for (std::size_t r = first; r < first + count; ++r) {
        for (float& value : wanted.row(r)) value = value < -limit ? -limit : value > limit ? limit : value;
      }
    });
  }
}

}  // namespace

/// What the heads of a layer read and write.
struct BlockPass::Projections {
  MatrixView<float> q, k, v, z;  // v and z without data where they are not needed
  std::vector<HeadRun> query_runs, kv_runs;
};

void PassReport::Finding::add(const RowCount& rows, HeadId of_head) {
  if (rows.count > 0 && count == 0) {
    sequence = rows.sequence;
    query = rows.query;
    head = of_head;
  }
  count += rows.count;
}

BlockPass::BlockPass(const PassInputs& inputs)
    : inputs_(inputs),
      pool_(inputs.context.pool),
      head_(inputs.context.pool, inputs.model),
      panels_(inputs.context.pool.size()) {}

const Block& BlockPass::Carried::block(Component component) const {
  if (component == Component::decoder) return own;
  return component == Component::cross ? cross : *inputs;
}

void BlockPass::run(std::span<const Block> together) {
  const ModelConfig& config = inputs_.model.config();
  const std::size_t layers = inputs_.plan.layers.size();
  if (carried_.size() < together.size()) carried_.resize(together.size());
  const std::span<Carried> all = std::span(carried_).first(together.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].inputs = &together[i];
    all[i].x = all[i].input_rows.take(together[i].rows, config.d_model);
    embed(pool_, inputs_.model, inputs_.batch, together[i], all[i].x);
    all[i].convolution.keep(config, all[i].x);
  }
  if (inputs_.context.streamed_rows > 0) inputs_.model.evict_embedding();
  for (std::size_t index = 0; index < layers; ++index) {
    const bool entered = index > 0 && needs_target(config.layers[index - 1].component);
    for (Carried& carried : all) {
      if (needs_target(config.layers[index].component) && !entered) enter_decoder(carried);
      layer(carried, index);
    }
    if (inputs_.context.streamed_rows > 0) release(index);
  }
  if (!inputs_.plan.logits) return;
  for (const Carried& carried : all)
    show_logits(carried.block(config.layers[layers - 1].component), carried.x);
}

void BlockPass::enter_decoder(Carried& carried) {
  const ModelConfig& config = inputs_.model.config();
  apply_norm(pool_, config.decoder->encoder_norm, inputs_.model.encoder_norm(), carried.x, carried.x);
  carried.memory = carried.x;
  carried.own = in_component(*carried.inputs, Component::decoder, inputs_.batch);
  carried.cross = in_component(*carried.inputs, Component::cross, inputs_.batch);
  carried.x = carried.target_rows.take(carried.own.rows, carried.memory.cols);
  embed(pool_, inputs_.model, inputs_.batch, carried.own, carried.x);
}

/// Unless the next layer has the same weights.
void BlockPass::release(std::size_t index) const {
  const bool last = index + 1 == inputs_.plan.layers.size();
  if (last || inputs_.model.shared_with(index) != inputs_.model.shared_with(index + 1))
    inputs_.model.evict_layer(index);
}

void BlockPass::layer(Carried& carried, std::size_t index) {
  const LayerConfig& config = inputs_.model.config().layers[index];
  const Lease<LayerWeights> lease = inputs_.model.layer(index, &pool_);
  const LayerWeights& weights = *lease;
  const LayerPlan& plan = inputs_.plan.layers[index];
  const Block& block = carried.block(config.component);
  const MatrixView<float> x = carried.x;
  if (inputs_.context.progress != nullptr) inputs_.context.progress->advance();
  if (config.place == NormPlace::stream) apply_norm(pool_, config.norm, weights.attention_norm, x, x);
  if (plan.shows_stream) show_stream(block, index, x);
  MatrixView<const float> stream = x;
  if (config.place == NormPlace::pre || config.place == NormPlace::both) {
    const MatrixView<float> normed = normed_.take(x.rows, x.cols);
    apply_norm(pool_, config.attention_norm(), weights.attention_norm, x, normed);
    stream = normed;
  }
  const Projections projections = project(carried, index, stream);
  attend_heads(block, index, projections);
  if (!plan.output) return;
  const MatrixView<float> output = project_output(weights, projections.z);
  if (plan.shows_output) show_output(block, index, output);
  if (!plan.onward) return;
  std::vector<ExpertRoute> routes;
  std::vector<ExpertRoute>* const wanted = plan.routing ? &routes : nullptr;
  if (config.parallel) add_mlp(pool_, config, weights, mlp_, x, wanted);
  if (config.place == NormPlace::output)
    apply_norm(pool_, config.norm, weights.attention_norm, output, output);
  if (config.place == NormPlace::both)
    apply_norm(pool_, config.norm, weights.attention_output_norm, output, output);
  add_rows(pool_, output, x, config.residual_multiplier);
  if (config.place == NormPlace::post) apply_norm(pool_, config.norm, weights.attention_norm, x, x);
  if (!config.parallel) add_mlp(pool_, config, weights, mlp_, x, wanted);
  carried.convolution.add(pool_, block, config, weights, x);
  if (plan.routing) show_routing(block, index, routes);
}

BlockPass::Projections BlockPass::project(const Carried& carried, std::size_t index,
                                          MatrixView<const float> stream) {
  const Block& block = carried.block(inputs_.model.config().layers[index].component);
  const AttentionConfig& config = inputs_.model.config().layers[index].attention;
  const Lease<LayerWeights> lease = inputs_.model.layer(index);
  const LayerWeights& weights = *lease;
  const LayerPlan& plan = inputs_.plan.layers[index];
  const Sequence& first = inputs_.batch.sequences[block.parts.front().sequence];
  // Only a block of one sequence has keys or values of its own.
  MatrixView<const float> keys = first.key_embeddings.rows() > 0 ? first.key_embeddings.view() : stream;
  if (block.component == Component::cross) keys = carried.memory;
  const MatrixView<const float> values =
      first.value_embeddings.rows() > 0 ? first.value_embeddings.view() : keys;

  Projections made;
  made.query_runs = query_runs_of(config, plan.computed);
  made.kv_runs = kv_runs_of(config, plan.computed);
  if (config.head_norm_span == HeadNormSpan::whole) {  // every head has a part in the norm of each
    made.query_runs = {{0, config.query_slices()}};
    made.kv_runs = {{0, config.kv_heads}};
  }
  made.q = q_.take(block.rows, config.query_slices() * config.d_head);
  made.k = k_.take(block.key_rows, config.kv_heads * config.d_head);
  Products products;
  products.add(made.query_runs, config.d_head, {stream, weights.query, made.q}, narrow_.query);
  products.add(made.kv_runs, config.d_head, {keys, weights.key, made.k}, narrow_.key);
  if (plan.values) {
    made.v = v_.take(block.key_rows, config.kv_heads * config.d_value);
    products.add(made.kv_runs, config.d_value, {values, weights.value, made.v}, narrow_.value);
  }
  products.run(pool_);
  if (plan.z) made.z = normed_.take(block.rows, config.heads * config.d_value);  // the stream is read
  if (config.clip > 0) {
    clamp(pool_, config.clip, made.q, made.query_runs, config.d_head);
    clamp(pool_, config.clip, made.k, made.kv_runs, config.d_head);
    if (plan.values) clamp(pool_, config.clip, made.v, made.kv_runs, config.d_value);
  }
  if (config.head_norm.kind != NormKind::none) norm_heads(config, weights, made);
  if (config.rotary != nullptr) turn(block, config, made);
  return made;
}

void BlockPass::norm_heads(const AttentionConfig& config, const AttentionWeights& weights,
                           const Projections& projections) {
  if (config.head_norm_span == HeadNormSpan::whole) {
    apply_norm(pool_, config.head_norm, weights.query_norm, projections.q, projections.q);
    apply_norm(pool_, config.head_norm, weights.key_norm, projections.k, projections.k);
    return;
  }
  const auto norm_runs = [&](MatrixView<float> rows, std::span<const HeadRun> runs, const NormWeights& norm) {
    for (const HeadRun& run : runs) {
      for (std::size_t head = run.first; head < run.first + run.count; ++head) {
        const MatrixView<float> one = rows.col_range(head * config.d_head, config.d_head);
        apply_norm(pool_, config.head_norm, head_gains(config, norm, head), one, one);
      }
    }
  };
  norm_runs(projections.q, projections.query_runs, weights.query_norm);
  norm_runs(projections.k, projections.kv_runs, weights.key_norm);
}

void BlockPass::turn(const Block& block, const AttentionConfig& config, const Projections& projections) {
  const auto turn_runs = [&](MatrixView<float> rows, std::span<const HeadRun> runs) {
    const RotaryTable& table = rotary_.table(*config.rotary, rows.rows);
    for (const HeadRun& run : runs) {
      rotate(pool_, *config.rotary, table, config.d_head,
             rows.col_range(run.first * config.d_head, run.count * config.d_head));
    }
  };
  for (const Part& part : block.parts) {
    turn_runs(projections.q.row_range(part.first_query, part.queries), projections.query_runs);
    turn_runs(projections.k.row_range(part.first_key, part.keys), projections.kv_runs);
  }
}

void BlockPass::attend_heads(const Block& block, std::size_t index, const Projections& projections) {
  const LayerPlan& plan = inputs_.plan.layers[index];
  const Lease<LayerWeights> lease = inputs_.model.layer(index);
  const AttentionWeights& weights = *lease;
  const AttentionConfig& config = inputs_.model.config().layers[index].attention;
  const AttentionLayer layer{config,
                             index,
                             projections.q,
                             projections.k,
                             projections.v,
                             projections.z,
                             weights.sinks,
                             plan.scores,
                             inputs_.context.panel_rows,
                             plan.patterns || plan.scores,
                             weights.relative_bias,
                             position_table_.project(pool_, config, weights)};
  for (PanelBuffers& buffers : panels_) buffers.reserve(block, layer);
  std::vector<std::size_t> heads;
  for (std::size_t head = 0; head < plan.computed.size(); ++head) {
    if (plan.computed[head] != 0) heads.push_back(head);
  }
  std::vector<HeadReport> reports(heads.size());
  pool_.run(heads.size(), [&](std::size_t task, std::size_t worker) {
    const std::size_t head = heads[task];
    const auto observers = plan.shown[head] != 0 ? inputs_.observers : std::span<Observer* const>();
    reports[task] = attend(layer, inputs_.batch, block, head, observers, panels_[worker]);
  });
  for (std::size_t task = 0; task < heads.size(); ++task) {
    if (plan.shown[heads[task]] == 0) continue;
    report_.fully_masked.add(reports[task].fully_masked, {index, heads[task]});
    report_.non_finite.add(reports[task].non_finite, {index, heads[task]});
  }
}

MatrixView<float> BlockPass::project_output(const LayerWeights& weights, MatrixView<float> z) {
  if (!weights.output.present()) return z;  // the heads side by side
  const MatrixView<float> output = q_.take(z.rows, weights.output.out());
  const HeadRun all{0, 1};
  Products products;
  products.add({&all, 1}, output.cols, {z, weights.output, output}, narrow_.output);
  products.run(pool_);
  return output;
}

}  // namespace attnctl::forward
