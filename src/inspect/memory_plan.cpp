#include "inspect/memory_plan.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/numbers.hpp"
#include "causal/footprint.hpp"

namespace attnctl::inspect {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20U;

/// Memory of the rest of the program: code that is not loaded yet, including the BLAS library, and the
/// buffers of the output writers.
constexpr std::uint64_t kProgramBytes = 20 * kMebibyte;

/// Added to the value of --memory that an error names, because the measured memory differs between runs.
constexpr std::uint64_t kNamedMargin = 2 * kMebibyte;

template <typename... Bytes>
void grow(std::uint64_t& sum, Bytes... bytes) {
  sum = saturating_sum(sum, bytes...);
}

/// Returns an estimate of the peak memory of the process if the further work needs `bytes`.
std::uint64_t with_process(std::uint64_t bytes) {
  const MemoryUse use = memory_use();
  return std::max(use.peak, saturating_sum(use.now, kProgramBytes, bytes));
}

}  // namespace

std::size_t plan_memory(std::uint64_t limit, const WorkBytes& work) {
  if (limit == 0) return 0;
  const std::uint64_t resident = saturating_sum(work.weights_resident, work.pass.resident());
  if (with_process(saturating_sum(work.kept, resident)) <= limit) return 0;
  const std::uint64_t streamed = std::max(work.weights_streamed, work.pass.streamed(work.pass.block_rows));
  const std::uint64_t needed = with_process(saturating_sum(work.kept, streamed));
  if (needed > limit) {
    const std::uint64_t enough = saturating_sum(needed, kNamedMargin + kMebibyte - 1) / kMebibyte;
    fail(Status::limit,
         "--memory: {} bytes are too few, {}M is enough; you can also select fewer --layers or --heads, "
         "shorten the inputs, use fewer --threads or, in analyze and weights, request less with --include or "
         "use --format npz",
         limit, enough);
  }
  const std::uint64_t others = saturating_sum(memory_use().now, kProgramBytes, work.kept);
  const std::uint64_t spare = limit - std::min(others, limit);
  return std::max<std::size_t>({work.pass.streamed_rows(spare), work.pass.block_rows, 1});
}

WorkBytes pass_bytes(const model::Model& model, const input::Batch& batch,
                     const forward::Selection& selection, std::span<forward::Observer* const> observers,
                     const forward::RunContext& context) {
  const forward::ObserverGroup all({observers.begin(), observers.end()});
  return {.kept = all.memory(model, batch),
          .pass = forward::pass_footprint(model, batch, selection, all.needs(), context.pool.size(),
                                          context.panel_rows, context.packed_rows)};
}

void add_weights_bytes(const model::Model& model, const forward::Selection& selection,
                       const analysis::WeightsOptions& options, std::size_t threads, WorkBytes& work) {
  const model::ModelConfig& config = model.config();
  std::uint64_t factor = 0;  // bytes of one circuit factor of one head in double
  for (const std::size_t layer : selection.layers()) {
    const model::AttentionConfig& attention = config.layers[layer].attention;
    const std::uint64_t width = std::max(attention.d_head, attention.d_value);
    const std::uint64_t rows = std::max({config.d_model, config.d_key_input, config.d_output});
    factor = std::max(factor, width * rows * sizeof(double));
    std::uint64_t weights = model.attention_bytes(layer);
    if (options.fold_norm)
      weights += model.layer_bytes(layer) + (layer > 0 ? model.layer_bytes(layer - 1) : 0);
    // Counts the spectra of QK and OV several times: they are copied into the results and into the output.
    const std::uint64_t directions = 2 * options.directions * rows * sizeof(float);
    const std::uint64_t found = attention.heads * 2 * (width * sizeof(double) + directions);
    grow(work.kept, 2 * found);
    grow(weights, found);
    grow(work.weights_resident, weights);
    work.weights_streamed = std::max(work.weights_streamed, weights);
  }
  constexpr std::uint64_t copies_of_factor = 10;
  const std::uint64_t working = threads * copies_of_factor * factor;
  if (options.across_layers) work.weights_streamed = work.weights_resident;
  grow(work.weights_resident, working);
  grow(work.weights_streamed, working);
  const std::uint64_t heads = selection.heads.size();
  const std::uint64_t compared =
      options.across_layers ? heads * heads : heads * config.layers.front().attention.heads;
  grow(work.kept, 4 * compared * sizeof(double));
}

WorkBytes causal_bytes(const model::Model& model, const input::Batch& batch, std::size_t scored, bool mlps,
                       std::size_t threads) {
  const causal::CausalFootprint footprint = causal::causal_footprint(model, batch, scored, mlps, threads);
  return {.kept = footprint.kept,
          .pass = {},
          .weights_resident = saturating_sum(footprint.resident_weights, footprint.buffers),
          .weights_streamed = saturating_sum(footprint.streamed_weights, footprint.buffers)};
}

WorkBytes reference_bytes(const model::Model& model, const input::Batch& batch, bool logits,
                          std::size_t threads) {
  const model::ModelConfig& config = model.config();
  WorkBytes work;
  const auto queries_of = [](const input::Sequence& sequence) {
    return std::uint64_t{std::max(sequence.queries(), sequence.target ? sequence.target->queries() : 0)};
  };
  std::uint64_t of_token = 0;  // values per token of the largest layer: projections, residual stream, MLP
  std::uint64_t scores = 0;    // values of the largest score matrix of a head
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const model::LayerConfig& layer = config.layers[i];
    const model::AttentionConfig& attention = layer.attention;
    const std::uint64_t heads =
        std::uint64_t{attention.heads} * std::max(attention.d_head, attention.d_value);
    const std::uint64_t inner = std::max(layer.mlp.width, layer.experts.shared_width);
    of_token = std::max(of_token, 4 * heads + 8 * config.d_model + 3 * inner);
    if (model.shared_with(i) == i) grow(work.weights_resident, model.layer_bytes(i));
    for (const input::Sequence& sequence : batch.sequences) {
      const std::uint64_t n = queries_of(sequence);
      const std::uint64_t m = std::max<std::uint64_t>(n, sequence.keys());
      const std::uint64_t kept =
          attention.heads * (2 * m + attention.d_value) + config.d_output + config.d_model;
      const std::uint64_t values = m * attention.kv_heads * attention.d_value;
      grow(work.kept, (n * kept + values) * sizeof(double));
      scores = std::max(scores, n * m);
    }
  }
  std::uint64_t longest = 0;
  for (const input::Sequence& sequence : batch.sequences) {
    longest = std::max(longest, queries_of(sequence));
    if (logits) grow(work.kept, queries_of(sequence) * config.output_embedding().vocabulary * sizeof(double));
  }
  // Mask, biases, scores, pattern and their intermediate results.
  constexpr std::uint64_t kCopiesOfScores = 7;
  grow(work.kept, threads * kCopiesOfScores * scores * sizeof(double));
  if (logits) grow(work.kept, longest * config.output_embedding().vocabulary * sizeof(double));
  grow(work.kept, 2 * longest * of_token * sizeof(double));
  grow(work.weights_resident, model.embedding_bytes(longest));
  if (logits) grow(work.weights_resident, 2 * model.head_bytes());
  work.weights_streamed = work.weights_resident;
  return work;
}

}  // namespace attnctl::inspect
