#include "study/block_groups.hpp"

#include <memory>

#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl::study {
namespace {

/// Returns an upper bound of the number of queries of a batch whose predictions are scored.
std::size_t scored_queries(const StudyInput& input, const input::Batch& batch) {
  const std::size_t rows = rows_of(batch);
  if (input.model.config().predicts_next_token()) return rows;
  const double masked = input.settings.ablation.mask_rate * static_cast<double>(rows);
  return std::min(rows, static_cast<std::size_t>(masked) + batch.sequences.size());
}

/// Returns the bytes that are kept during the whole study if heads are removed: the mean of z, as float32 and
/// as sums in float64, and the results of each set. `positions` is the length of a usual sequence.
std::uint64_t ablation_bytes(const StudySettings& settings, const model::ModelConfig& config,
                             std::size_t positions) {
  constexpr std::uint64_t of_value = sizeof(float) + sizeof(double), of_set = std::uint64_t{4} << 10U;
  std::uint64_t values = 0;
  for (const model::LayerConfig& layer : config.layers)
    values += std::uint64_t{layer.attention.heads} * layer.attention.d_value;
  const std::uint64_t means = settings.ablation.by_position ? positions : 1;
  return saturating_sum(saturating_product(of_value * values, means), of_set * settings.ablation.sets.size());
}

}  // namespace

std::size_t rows_of(const input::Batch& batch) {
  std::size_t rows = 0;
  for (const input::Sequence& sequence : batch.sequences) rows += sequence.queries();
  return std::max<std::size_t>(rows, 1);
}

std::uint64_t BlockMemory::bytes() const {
  const auto of_rows = saturating_product<std::uint64_t>(row, std::max(rows, pass_rows));
  return saturating_sum(saturating_sum(fixed, of_rows), kept);
}

BlockNeeds needs_of(const StudyInput& input, const MemoryShares& shares, const input::Batch& batch) {
  const StudySettings& settings = input.settings;
  const model::ModelConfig& config = input.model.config();
  BlockNeeds needs;
  needs.pass = forward::pass_footprint(input.model, batch, settings.selection, shares.needs, 1);
  needs.memory = {.rows = rows_of(batch),
                  .pass_rows = needs.pass.block_rows,
                  .row = needs.pass.row,
                  .fixed = needs.pass.streamed(0) - needs.pass.row * needs.pass.block_rows};
  for (const MeasureRow* const row : settings.measures) {
    if (row->memory != nullptr) needs.measures += row->memory(config, settings.selection.heads, batch).block;
  }
  if (settings.removes_heads()) {
    const auto has_mlps = [](const RemovedSet& set) { return !set.mlps.empty(); };
    needs.causal = causal::causal_footprint(input.model, batch, scored_queries(input, batch), false, 1);
    if (settings.ablation.replacement == Replacement::resample)
      needs.causal.kept +=
          causal::recorded_bytes(config, batch, std::ranges::any_of(settings.ablation.sets, has_mlps));
  }
  const std::uint64_t causal = needs.causal.streamed(), of_pass = needs.memory.bytes();
  needs.memory.kept = saturating_sum(needs.measures, causal - std::min(causal, of_pass));
  return needs;
}

MemoryShares share_memory(const StudyInput& input, std::size_t workers) {
  const StudySettings& settings = input.settings;
  MemoryShares shares{.needs = {.patterns = false}};
  const StudyHeader header = plain_header(settings, input.model);
  for (const auto& measure : make_measures(settings.measures, header.shape)) shares.needs |= measure->needs();
  if (input.memory == 0) return shares;
  constexpr std::uint64_t program = std::uint64_t{20} << 20U;  // code and buffers that are not loaded yet
  constexpr std::uint64_t of_head = std::uint64_t{32} << 10U;  // state and results, without large measures
  shares.used = saturating_sum(input.used, program + of_head * settings.selection.heads.size());
  for (const MeasureRow* const row : settings.measures) {
    if (row->memory != nullptr)
      shares.used += row->memory(input.model.config(), settings.selection.heads, {}).study;
  }
  std::size_t tokens = settings.corpus.batch_tokens;
  if (settings.corpus.probe.sequences > 0) tokens = std::max(tokens, kFewestProbeTokens);
  tokens = std::min(tokens, input.model.config().max_positions.value_or(1U << 20U));
  input::Batch usual;
  usual.sequences.emplace_back().ids.assign(tokens, 0);
  if (input.model.config().decoder)
    usual.sequences[0].target = std::make_shared<input::Sequence>(usual.sequences[0]);
  if (settings.removes_heads())
    shares.used = saturating_sum(shares.used, ablation_bytes(settings, input.model.config(), tokens));
  const std::uint64_t left = input.memory - std::min(input.memory, shares.used);
  const BlockNeeds needs = needs_of(input, shares, usual);
  const std::uint64_t of_pass = saturating_sum(needs.pass.resident_weights, needs.pass.other_weights);
  const std::uint64_t weights = std::max(of_pass, needs.causal.resident_weights);
  const std::uint64_t causal = saturating_sum(needs.causal.kept, needs.causal.buffers);
  const std::uint64_t block =
      saturating_sum(std::max(needs.pass.resident() - of_pass, causal), needs.measures);
  if (saturating_sum(weights, saturating_product<std::uint64_t>(workers, block)) <= left) return shares;
  shares.of_worker = std::max<std::uint64_t>(left / workers, 1);
  shares.usual = needs.memory.bytes();
  return shares;
}

bool GroupSize::add(const BlockMemory& block) {
  constexpr std::uint64_t state_copies = 4;  // a measure holds more than its saved state
  const BlockMemory all{.rows = all_.rows + block.rows,
                        .pass_rows = std::max(all_.pass_rows, block.pass_rows),
                        .row = std::max(all_.row, block.row),
                        .fixed = std::max(all_.fixed, block.fixed),
                        .kept = saturating_sum(all_.kept, block.kept)};
  const std::uint64_t bytes = saturating_sum(
      all.bytes(), saturating_product<std::uint64_t>(state_copies * state_bytes_, blocks_ + 1));
  const bool alone = blocks_ == 0;
  if (of_worker_ > 0 && (alone ? all.bytes() > of_worker_ : bytes > of_worker_ || all.rows > most_rows_))
    return false;
  ++blocks_;
  all_ = all;
  bytes_ = bytes;
  return true;
}

void refuse_block(const StudyInput& input, const MemoryShares& shares, std::size_t workers,
                  const CorpusBlock& block) {
  constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20U;
  const std::uint64_t needed = needs_of(input, shares, block.batch).memory.bytes();
  const std::uint64_t enough = shares.used + std::max(needed, shares.usual) * workers + 4 * mebibyte;
  fail(Status::limit,
       "--memory: {} bytes are too few, {}M is enough for the block that begins with {}; you can also use "
       "fewer --threads, or shorten sentences with --max-length",
       input.memory, (enough + mebibyte - 1) / mebibyte, escaped(block.batch.sequences.front().id));
}

}  // namespace attnctl::study
