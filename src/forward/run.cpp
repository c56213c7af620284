#include "forward/run.hpp"

#include <algorithm>
#include <functional>

#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "forward/attention/attention.hpp"
#include "forward/block.hpp"
#include "forward/layers/layers.hpp"

namespace attnctl::forward {
namespace {

/// Consecutive slices of a projection. A slice is the columns of one query head or of one key/value head.
struct HeadRun {
  std::size_t first = 0, count = 0;
};

/// Returns the ranges of slices (of queries, or of keys and values) that the wanted heads use. slice_of(head)
/// is the slice of a head; it is less than `slices`.
template <typename SliceOf>
std::vector<HeadRun> runs_of(std::span<const std::uint8_t> wanted, std::size_t slices,
                             const SliceOf& slice_of) {
  std::vector<std::uint8_t> used(slices, 0);
  for (std::size_t head = 0; head < wanted.size(); ++head) {
    if (wanted[head] != 0) used[slice_of(head)] = 1;
  }
  std::vector<HeadRun> runs;
  for (std::size_t slice = 0; slice < slices; ++slice) {
    if (used[slice] == 0) continue;
    if (runs.empty() || runs.back().first + runs.back().count != slice) runs.push_back({slice, 0});
    ++runs.back().count;
  }
  return runs;
}

struct Products {
  std::vector<Dense> first;  // the first product x A of factorised projections
  std::vector<Dense> last;

  /// Adds the product out = x W + b for the output columns of these slices. A slice is `width` columns wide.
  void add(std::span<const HeadRun> runs, std::size_t width, const Dense& all, Buffer& inner_rows) {
    MatrixView<const float> x = all.x;
    if (all.weights.factorised()) {
      const MatrixView<float> inner = inner_rows.take(x.rows, all.weights.rank());
      first.push_back({x, all.weights.first_product(), inner});
      x = inner;
    }
    const model::Linear weights = all.weights.last_product();
    for (const HeadRun& run : runs) {
      last.push_back({x, weights.outputs(run.first * width, run.count * width),
                      all.out.col_range(run.first * width, run.count * width)});
    }
  }
  void run(Pool& pool) const {
    if (!first.empty()) run_dense(pool, first);
    run_dense(pool, last);
  }
};

/// Limits the values in the columns of these slices to [-limit, limit]. A slice is `width` columns wide.
void clamp(Pool& pool, float limit, MatrixView<float> all, std::span<const HeadRun> runs, std::size_t width) {
  for (const HeadRun& run : runs) {
    const MatrixView<float> wanted = all.col_range(run.first * width, run.count * width);
    for_rows(pool, wanted.rows, wanted.cols, [&](std::size_t r) {
      for (float& value : wanted.row(r)) value = value < -limit ? -limit : value > limit ? limit : value;
    });
  }
}

model::NormWeights norm_of_head(const model::AttentionConfig& config, const model::NormWeights& norm,
                                std::size_t head) {
  if (config.head_norm_span != model::HeadNormSpan::each) return norm;
  const auto slice = [&](std::span<const float> all) {
    return all.empty() ? all : all.subspan(head * config.d_head, config.d_head);
  };
  return {slice(norm.gain), slice(norm.bias)};
}

struct PassInputs {
  const model::Model& model;
  const input::Batch& batch;
  const PassPlan& plan;
  std::span<Observer* const> observers;
  RunContext& context;
  const PartialPass& part;
};

/// Copies rows into rows of equal shape.
void copy_rows(MatrixView<const float> from, MatrixView<float> to) {
  for (std::size_t r = 0; r < to.rows; ++r) std::ranges::copy(from.row(r), to.row(r).begin());
}

/// Consecutive queries of one sequence whose logits are computed.
struct LogitRun {
  const BlockSequence* place = nullptr;
  std::size_t first = 0, count = 0;  // queries of the sequence

  [[nodiscard]] std::size_t row() const { return place->first_query + first; }  // of the Block
};

bool are_adjacent(const LogitRun& run, const LogitRun& next) {
  return run.row() + run.count == next.row();
}

/// Computes the layers of a plan for Blocks. Buffers stay allocated from Block to Block. Values that are not
/// needed at the same time share a buffer.
class ForwardPass {
 public:
  explicit ForwardPass(const PassInputs& inputs)
      : inputs_(inputs),
        observers_({inputs.observers.begin(), inputs.observers.end()}),
        config_(inputs.model.config()),
        pool_(inputs.context.pool),
        panels_(inputs.context.pool.size()) {}

  /// Computes each layer for all Blocks of the group before the next layer, then the logits, if planned.
  void run(std::span<const Block> group) {
    const std::size_t layers = inputs_.plan.layers.size();
    if (states_.size() < group.size()) states_.resize(group.size());
    const std::span<BlockState> all = std::span(states_).first(group.size());
    for (std::size_t i = 0; i < all.size(); ++i) begin(all[i], group[i]);
    if (inputs_.context.streamed_rows > 0) inputs_.model.evict_embedding();
    const std::size_t first = starts_in_layer() ? inputs_.part.layer : 0;
    for (std::size_t index = first; index < layers; ++index) {
      const bool entered = (index == first && starts_in_layer()) ||
                           (index > 0 && needs_target(config_.layers[index - 1].component));
      for (BlockState& state : all) {
        if (needs_target(config_.layers[index].component) && !entered) enter_decoder(state);
        run_layer(state, index);
        if (inputs_.context.streamed_rows > 0) throw_if_interrupted();  // a layer of many Blocks takes long
        if (inputs_.context.progress != nullptr) inputs_.context.progress->advance();
      }
      if (inputs_.context.streamed_rows > 0) release(index);
    }
    if (!inputs_.plan.logits) return;
    for (const BlockState& state : all)
      compute_logits(state.block(config_.layers[layers - 1].component), state.x);
  }

  [[nodiscard]] const RowWarnings& warnings() const { return warnings_; }

 private:
  /// The queries, keys, values and z of a layer, and the slices that are computed.
  struct Projections {
    MatrixView<float> q, k, v, z;  // v and z have no data if they are not needed
    std::vector<HeadRun> query_runs, kv_runs;
  };

  /// What the queries, the keys and the values of a layer are computed from.
  struct HeadInputs {
    MatrixView<const float> queries, keys, values;
  };

  /// The data of a Block that are kept between layers.
  struct BlockState {
    const Block* inputs = nullptr;
    Block decoder, cross;            // the same sequences in the decoder; set when the decoder begins
    MatrixView<float> x;             // the residual stream of the inputs, later of the targets
    MatrixView<const float> memory;  // the encoder's output
    Buffer input_rows, target_rows;
    Convolution convolution;

    [[nodiscard]] const Block& block(model::Component component) const {
      if (component == model::Component::decoder) return decoder;
      return component == model::Component::cross ? cross : *inputs;
    }
  };

  [[nodiscard]] bool starts_in_layer() const { return !inputs_.part.start.empty(); }
  [[nodiscard]] bool starts_in(std::size_t layer) const {
    return starts_in_layer() && layer == inputs_.part.layer;
  }

  /// Stacks a member of the start of each sequence of a Block. `first` is the member of BlockSequence with
  /// the first row of a sequence.
  void stack(const Block& block, MatrixView<const float> SequenceStart::*values,
             std::size_t BlockSequence::*first, MatrixView<float> rows) const {
    for (const BlockSequence& place : block.sequences) {
      const MatrixView<const float> from = inputs_.part.start[place.index].*values;
      copy_rows(from, rows.row_range(place.*first, from.rows));
    }
  }

  /// Sets the residual stream of a Block before the first layer that is computed.
  void begin(BlockState& state, const Block& block) {
    state.inputs = &block;
    state.x = state.input_rows.take(block.rows, config_.d_model);
    const auto convolves = [](const model::LayerConfig& layer) { return layer.convolution != nullptr; };
    if (!starts_in_layer() || std::ranges::any_of(config_.layers, convolves)) {
      embed(pool_, inputs_.model, inputs_.batch, block, state.x);
      state.convolution.keep(config_, state.x);
    }
    if (!starts_in_layer()) return;
    if (needs_target(config_.layers[inputs_.part.layer].component)) {
      stack(block, &SequenceStart::memory, &BlockSequence::first_query, state.x);
      open_decoder(state);
      stack(state.decoder, &SequenceStart::stream, &BlockSequence::first_query, state.x);
    } else {
      stack(block, &SequenceStart::stream, &BlockSequence::first_query, state.x);
    }
  }

  /// Makes the residual stream the encoder's output, and replaces it by rows for the targets.
  void open_decoder(BlockState& state) {
    state.memory = state.x;
    state.decoder = in_component(*state.inputs, model::Component::decoder, inputs_.batch);
    state.cross = in_component(*state.inputs, model::Component::cross, inputs_.batch);
    state.x = state.target_rows.take(state.decoder.rows, state.memory.cols);
  }

  void enter_decoder(BlockState& state) {
    const auto rows_of = [&](const BlockSequence& place) {
      return state.x.row_range(place.first_query, place.queries);
    };
    for (const BlockSequence& place : state.inputs->sequences)
      observers_.encoder_stream(place.index, rows_of(place));
    apply_norm(pool_, config_.decoder->encoder_norm, inputs_.model.encoder_norm(), state.x, state.x);
    for (const BlockSequence& place : state.inputs->sequences)
      observers_.encoded(place.index, rows_of(place));
    open_decoder(state);
    embed(pool_, inputs_.model, inputs_.batch, state.decoder, state.x);
  }

  void run_layer(BlockState& state, std::size_t index) {
    const model::LayerConfig& config = config_.layers[index];
    const model::Lease<model::LayerWeights> lease =
        inputs_.model.layer(index, &pool_, model::WeightForm::stored);
    const model::LayerWeights& weights = *lease;
    const LayerPlan& plan = inputs_.plan.layers[index];
    const Block& block = state.block(config.component);
    const MatrixView<float> x = state.x;
    if (config.place == model::NormPlace::stream && !starts_in(index))
      apply_norm(pool_, config.norm, weights.attention_norm, x, x);
    if (plan.shows_stream) {
      for (const BlockSequence& place : block.sequences)
        observers_.stream(place.index, index, x.row_range(place.first_query, place.queries));
    }
    MatrixView<float> z;
    if (starts_in(index) && inputs_.part.start.front().z.data != nullptr) {
      z = normed_.take(block.rows, config.attention.heads * config.attention.d_value);
      stack(block, &SequenceStart::z, &BlockSequence::first_query, z);
    } else {
      z = run_heads(state, index, weights);
    }
    if (!plan.output) return;
    Editor* const editor = inputs_.part.editor;
    if (editor != nullptr) {
      for (const BlockSequence& place : block.sequences)
        editor->heads(place.index, index, z.row_range(place.first_query, place.queries));
    }
    const MatrixView<float> output = project_output(weights, z);
    if (plan.shows_output) {
      for (const BlockSequence& place : block.sequences)
        observers_.output(place.index, index, output.row_range(place.first_query, place.queries));
    }
    if (!plan.onward) return;
    std::vector<ExpertRoute> routes;
    std::vector<ExpertRoute>* const wanted = plan.routing ? &routes : nullptr;
    EditMlp edit;
    if (editor != nullptr) {
      edit = [&](std::size_t first_row, MatrixView<float> term) {
        for (const BlockSequence& place : block.sequences) {
          const std::size_t begin = std::max(first_row, place.first_query);
          const std::size_t end = std::min(first_row + term.rows, place.first_query + place.queries);
          if (begin >= end) continue;
          editor->mlp(place.index, index, begin - place.first_query,
                      term.row_range(begin - first_row, end - begin));
        }
      };
    }
    if (config.parallel) add_mlp(pool_, config, weights, mlp_, x, wanted, edit);
    if (config.place == model::NormPlace::output)
      apply_norm(pool_, config.norm, weights.attention_norm, output, output);
    if (config.place == model::NormPlace::both)
      apply_norm(pool_, config.norm, weights.attention_output_norm, output, output);
    add_rows(pool_, output, x, config.residual_multiplier);
    if (config.place == model::NormPlace::post) apply_norm(pool_, config.norm, weights.attention_norm, x, x);
    if (!config.parallel) add_mlp(pool_, config, weights, mlp_, x, wanted, edit);
    state.convolution.add(pool_, block, config, weights, x);
    if (plan.routing) {
      for (const BlockSequence& place : block.sequences)
        observers_.routing(place.index, index, std::span(routes).subspan(place.first_query, place.queries));
    }
  }

  /// Computes the heads of a layer and passes their panels to the observers. Returns their z [rows, heads *
  /// v], side by side; no data if z is not needed.
  MatrixView<float> run_heads(const BlockState& state, std::size_t index,
                              const model::LayerWeights& weights) {
    const Block& block = state.block(config_.layers[index].component);
    const Projections projections = project(block, index, weights, inputs_of_heads(state, index, weights));
    attend_heads(block, index, weights, projections);
    return projections.z;
  }

  HeadInputs inputs_of_heads(const BlockState& state, std::size_t index, const model::LayerWeights& weights) {
    const model::LayerConfig& config = config_.layers[index];
    const Block& block = state.block(config.component);
    const bool cross = block.component == model::Component::cross;
    const bool norms = config.place == model::NormPlace::pre || config.place == model::NormPlace::both;
    HeadInputs made{.queries = state.x, .keys = state.memory, .values = {}};
    if (norms) {
      const MatrixView<float> normed = normed_.take(block.rows, state.x.cols);
      apply_norm(pool_, config.attention_norm(), weights.attention_norm, state.x, normed);
      made.queries = normed;
    }
    // A Block with separate keys or values has only one sequence.
    const input::Sequence& first = inputs_.batch.sequences[block.sequences.front().index];
    if (!cross) made.keys = first.key_embeddings.rows() > 0 ? first.key_embeddings.view() : made.queries;
    made.values = first.value_embeddings.rows() > 0 ? first.value_embeddings.view() : made.keys;
    if (!starts_in(index)) return made;
    const auto replace = [&](MatrixView<const float>& rows, MatrixView<const float> SequenceStart::*by,
                             Buffer& buffer) {
      if ((inputs_.part.start.front().*by).data == nullptr) return;
      const MatrixView<float> given = buffer.take(block.key_rows, config_.d_model);
      stack(block, by, &BlockSequence::first_key, given);
      if (norms && !cross) apply_norm(pool_, config.attention_norm(), weights.attention_norm, given, given);
      rows = given;
    };
    replace(made.keys, &SequenceStart::keys, start_.keys);
    replace(made.values, &SequenceStart::values, start_.values);
    return made;
  }

  /// Releases the weights of a layer, unless the next layer of the plan uses the same weights.
  void release(std::size_t index) const {
    const bool last = index + 1 == inputs_.plan.layers.size();
    if (last || inputs_.model.shared_with(index) != inputs_.model.shared_with(index + 1))
      inputs_.model.evict_layer(index);
  }

  Projections project(const Block& block, std::size_t index, const model::LayerWeights& weights,
                      const HeadInputs& inputs) {
    const model::AttentionConfig& config = config_.layers[index].attention;
    const LayerPlan& plan = inputs_.plan.layers[index];
    Projections made;
    made.query_runs = runs_of(plan.computed, config.query_slices(),
                              [&](std::size_t head) { return config.query_slice(head); });
    made.kv_runs =
        runs_of(plan.computed, config.kv_heads, [&](std::size_t head) { return config.kv_head(head); });
    // one norm covers all heads, so all heads are needed
    if (config.head_norm_span == model::HeadNormSpan::whole) {
      made.query_runs = {{0, config.query_slices()}};
      made.kv_runs = {{0, config.kv_heads}};
    }
    made.q = q_.take(block.rows, config.query_slices() * config.d_head);
    made.k = k_.take(block.key_rows, config.kv_heads * config.d_head);
    Products products;
    products.add(made.query_runs, config.d_head, {inputs.queries, weights.query, made.q}, inner_.query);
    products.add(made.kv_runs, config.d_head, {inputs.keys, weights.key, made.k}, inner_.key);
    if (plan.values) {
      made.v = v_.take(block.key_rows, config.kv_heads * config.d_value);
      products.add(made.kv_runs, config.d_value, {inputs.values, weights.value, made.v}, inner_.value);
    }
    products.run(pool_);
    // Reuses normed_, which is not needed any more.
    if (plan.z) made.z = normed_.take(block.rows, config.heads * config.d_value);
    if (config.clip > 0) {
      clamp(pool_, config.clip, made.q, made.query_runs, config.d_head);
      clamp(pool_, config.clip, made.k, made.kv_runs, config.d_head);
      if (plan.values) clamp(pool_, config.clip, made.v, made.kv_runs, config.d_value);
    }
    if (config.head_norm.kind != model::NormKind::none) norm_heads(config, weights, made);
    if (config.rotary != nullptr) rotate_heads(block, config, made);
    return made;
  }

  void norm_heads(const model::AttentionConfig& config, const model::AttentionWeights& weights,
                  const Projections& projections) {
    if (config.head_norm_span == model::HeadNormSpan::whole) {
      apply_norm(pool_, config.head_norm, weights.query_norm, projections.q, projections.q);
      apply_norm(pool_, config.head_norm, weights.key_norm, projections.k, projections.k);
      return;
    }
    const auto norm_runs = [&](MatrixView<float> rows, std::span<const HeadRun> runs,
                               const model::NormWeights& norm) {
      for (const HeadRun& run : runs) {
        for (std::size_t head = run.first; head < run.first + run.count; ++head) {
          const MatrixView<float> one = rows.col_range(head * config.d_head, config.d_head);
          apply_norm(pool_, config.head_norm, norm_of_head(config, norm, head), one, one);
        }
      }
    };
    norm_runs(projections.q, projections.query_runs, weights.query_norm);
    norm_runs(projections.k, projections.kv_runs, weights.key_norm);
  }

  void rotate_heads(const Block& block, const model::AttentionConfig& config,
                    const Projections& projections) {
    const auto rotate_runs = [&](MatrixView<float> rows, std::span<const HeadRun> runs) {
      const RotaryTable& table = rotary_table(rotary_, *config.rotary, rows.rows);
      for (const HeadRun& run : runs) {
        rotate(pool_, *config.rotary, table, config.d_head,
               rows.col_range(run.first * config.d_head, run.count * config.d_head));
      }
    };
    for (const BlockSequence& place : block.sequences) {
      rotate_runs(projections.q.row_range(place.first_query, place.queries), projections.query_runs);
      rotate_runs(projections.k.row_range(place.first_key, place.keys), projections.kv_runs);
    }
  }

  void attend_heads(const Block& block, std::size_t index, const model::AttentionWeights& weights,
                    const Projections& projections) {
    const LayerPlan& plan = inputs_.plan.layers[index];
    const model::AttentionConfig& config = config_.layers[index].attention;
    const AttentionLayer layer{.config = config,
                               .layer = index,
                               .q = projections.q,
                               .k = projections.k,
                               .v = projections.v,
                               .z = projections.z,
                               .sinks = weights.sinks,
                               .scores = plan.scores,
                               .panel_rows = inputs_.context.panel_rows,
                               .patterns = plan.patterns || plan.scores,
                               .positions = position_tables(pool_, config, weights, distances_)};
    for (PanelBuffers& buffers : panels_) buffers.reserve(block, layer);
    std::vector<std::size_t> heads;
    for (std::size_t head = 0; head < plan.computed.size(); ++head) {
      if (plan.computed[head] != 0) heads.push_back(head);
    }
    std::vector<RowWarnings> warnings(heads.size());
    pool_.run(heads.size(), [&](std::size_t task, std::size_t worker) {
      const std::size_t head = heads[task];
      const auto observers = plan.shown[head] != 0 ? inputs_.observers : std::span<Observer* const>();
      warnings[task] = attend(layer, inputs_.batch, block, head, observers, panels_[worker]);
    });
    for (std::size_t task = 0; task < heads.size(); ++task) {
      if (plan.shown[heads[task]] == 0) continue;
      warnings_.fully_masked.add(warnings[task].fully_masked);
      warnings_.non_finite.add(warnings[task].non_finite);
      warnings_.infinite_score.add(warnings[task].infinite_score);
    }
  }

  MatrixView<float> project_output(const model::LayerWeights& weights, MatrixView<float> z) {
    if (!weights.output.present()) return z;  // without W_O, the output is the z of all heads, side by side
    const MatrixView<float> output = q_.take(z.rows, weights.output.out());
    const HeadRun all{0, 1};
    Products products;
    products.add({&all, 1}, output.cols, {z, weights.output, output}, inner_.output);
    products.run(pool_);
    return output;
  }

  /// Returns the queries of a Block whose logits are computed, in ascending order of the rows.
  [[nodiscard]] std::vector<LogitRun> logit_runs(const Block& block) const {
    std::vector<LogitRun> runs;
    for (const BlockSequence& place : block.sequences) {
      if (inputs_.part.logit_queries.empty()) {
        runs.push_back({&place, 0, place.queries});
        continue;
      }
      for (const std::size_t query : inputs_.part.logit_queries[place.index]) {
        const LogitRun run{&place, query, 1};
        if (!runs.empty() && runs.back().place == &place && are_adjacent(runs.back(), run)) {
          ++runs.back().count;
        } else {
          runs.push_back(run);
        }
      }
    }
    return runs;
  }

  void compute_logits(const Block& block, MatrixView<const float> x) {
    const std::size_t step =
        logits_rows(inputs_.model.head(&pool_, model::WeightForm::stored)->decoder.out());
    for (const BlockSequence& place : block.sequences)
      observers_.final_stream(place.index, x.row_range(place.first_query, place.queries));
    std::vector<LogitRun> runs = logit_runs(block);
    std::vector<LogitRun> now;  // up to `step` rows, which are computed together
    std::size_t rows = 0;
    const auto compute = [&] {
      MatrixView<const float> wanted;
      const auto gap = std::ranges::adjacent_find(now, std::not_fn(are_adjacent));
      if (gap == now.end()) {
        wanted = x.row_range(now.front().row(), rows);
      } else {
        const MatrixView<float> gathered = normed_.take(rows, x.cols);
        std::size_t to = 0;
        for (const LogitRun& run : now) {
          copy_rows(x.row_range(run.row(), run.count), gathered.row_range(to, run.count));
          to += run.count;
        }
        wanted = gathered;
      }
      const MatrixView<const float> logits = logits_of(pool_, inputs_.model, head_, wanted);
      std::size_t from = 0;
      for (const LogitRun& run : now) {
        observers_.logits(run.place->index, run.first, logits.row_range(from, run.count));
        from += run.count;
      }
      now.clear();
      rows = 0;
    };
    for (LogitRun& run : runs) {
      while (run.count > 0) {
        const std::size_t taken = std::min(run.count, step - rows);
        now.push_back({run.place, run.first, taken});
        run.first += taken;
        run.count -= taken;
        rows += taken;
        if (rows == step) compute();
      }
    }
    if (rows > 0) compute();
  }

  PassInputs inputs_;
  ObserverGroup observers_;
  const model::ModelConfig& config_;
  Pool& pool_;
  RotaryTables rotary_;
  HeadBuffers head_;
  MlpBuffers mlp_;
  DistanceBuffers distances_;
  std::vector<BlockState> states_;
  Buffer normed_, q_, k_, v_;  // z uses normed_, and the attention output uses q_
  struct {
    Buffer query, key, value, output;
  } inner_;  // x A of factorised projections
  struct {
    Buffer keys, values;
  } start_;                           // SequenceStart::keys and values
  std::vector<PanelBuffers> panels_;  // one per worker
  RowWarnings warnings_;
};

void warn(const RowWarnings& rows, const model::ModelConfig& config, const input::Batch& batch,
          Warnings& warnings) {
  const auto add = [&](const char* name, const RowWarning& row, const char* text) {
    if (row.count == 0) return;
    warnings.add(name,
                 fmt::format("input {}, head {}, query {}: {}", escaped(batch.sequences[row.sequence].id),
                             model::head_name(config, row.head), row.query, text),
                 row.count);
  };
  add("fully_masked_row", rows.fully_masked, "no key is visible, so all attention weights are 0");
  add("non_finite_pattern", rows.non_finite, "the attention weights contain NaN or infinity");
  add("non_finite_score", rows.infinite_score, "the score of a visible key is -inf");
}

}  // namespace

void run_forward(const model::Model& model, const input::Batch& batch, const Selection& selection,
                 std::span<Observer* const> observers, RunContext& context, const PartialPass& part) {
  check_batch(model, batch);
  Needs needs{.patterns = false};
  for (Observer* const observer : observers) needs |= observer->needs();
  const PassPlan plan = make_plan(model.name(), model.config(), selection, needs);
  if (needs.logits && !plan.logits) {
    context.warnings.add("no_output_head",
                         "logits are not computed, because the checkpoint has no output head");
  }
  if (!plan.layers.empty()) require_targets(model.config(), batch, plan.layers.size() - 1);
  for (Observer* const observer : observers) observer->begin(model, batch);
  if (plan.layers.empty()) return;

  const std::vector<Block> blocks = cut_into_blocks(batch, context.packed_rows, context.block_starts);
  const std::size_t skipped = part.start.empty() ? 0 : part.layer;
  if (context.progress != nullptr)
    context.progress->begin("forward", blocks.size() * (plan.layers.size() - skipped), "layer");
  ForwardPass pass({model, batch, plan, observers, context, part});
  for (std::size_t first = 0, last = 0; first < blocks.size(); first = last) {
    std::size_t rows = 0;
    do rows += blocks[last++].rows;
    while (last < blocks.size() && rows + blocks[last].rows <= context.streamed_rows);
    pass.run(std::span(blocks).subspan(first, last - first));
  }
  if (context.progress != nullptr) context.progress->end();
  warn(pass.warnings(), model.config(), batch, context.warnings);
}

}  // namespace attnctl::forward
