#include "cli/commands/bench_inputs.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "cli/options/inputs.hpp"
#include "cli/options/seeded_input.hpp"
#include "forward/run.hpp"
#include "input/sequences.hpp"

namespace attnctl::cli {
namespace {

constexpr std::size_t kLengths[] = {16, 128, 512};

/// Returns the lengths to measure. Throws Error(usage) for a length that the model does not support.
std::vector<std::size_t> choose_lengths(const BenchInputOptions& options, const ModelConfig& config) {
  if (const PatchGrid& grid = config.embedding.pixels; grid.present()) {
    const std::size_t tokens = grid.patches() + 1;
    for (const std::size_t length : options.lengths) {
      if (length != tokens)
        fail(Status::usage, "--lengths: got {}, images of this model have {} tokens", length, tokens);
    }
    return {tokens};
  }
  const auto fits = [&](std::size_t length) { return length <= config.max_positions.value_or(length); };
  std::vector<std::size_t> lengths;
  if (options.lengths.empty()) {
    std::ranges::copy_if(kLengths, std::back_inserter(lengths), fits);
    if (lengths.empty()) lengths.push_back(*config.max_positions);
    return lengths;
  }
  for (const std::size_t length : options.lengths) {
    if (!fits(length))
      fail(Status::usage, "--lengths: got {}, the model has {} positions", length, *config.max_positions);
  }
  return options.lengths;
}

BenchInputs seeded(std::size_t length, std::size_t count, const OpenModel& open) {
  SeededInputs seeds(open.model.config());
  BenchInputs inputs;
  for (std::size_t i = 0; i < count; ++i) inputs.batch.sequences.push_back(seeds.next(length, length));
  finish_batch(inputs.batch, open.vocabulary);
  return inputs;
}

}  // namespace

std::vector<std::size_t> BenchInputs::lengths() const {
  std::vector<std::size_t> lengths;
  std::ranges::transform(batch.sequences, std::back_inserter(lengths), &Sequence::queries);
  return lengths;
}

std::size_t BenchInputs::tokens() const {
  const std::vector<std::size_t> each = lengths();
  return std::reduce(each.begin(), each.end());
}

std::optional<std::size_t> BenchInputs::length() const {
  const std::size_t first = batch.sequences.front().queries();
  const bool alike = std::ranges::all_of(
      batch.sequences, [&](const Sequence& sequence) { return sequence.queries() == first; });
  return alike ? std::optional(first) : std::nullopt;
}

std::vector<BenchInputs> bench_inputs(const BenchInputOptions& options, OpenModel& open, Warnings& warnings) {
  std::vector<BenchInputs> all;
  if (!options.given.items.empty()) {
    if (!options.lengths.empty() || options.batch)
      fail(Status::usage,
           "--lengths and --batch are of seeded inputs; leave them out where inputs are given");
    all.push_back({read_inputs(options.given, open, warnings)});
  } else {
    for (const std::size_t length : choose_lengths(options, open.model.config()))
      all.push_back(seeded(length, options.batch.value_or(1), open));
  }
  for (const BenchInputs& inputs : all) check_batch(open.model, inputs.batch);
  return all;
}

}  // namespace attnctl::cli
