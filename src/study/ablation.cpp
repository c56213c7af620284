#include "study/ablation.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "base/numbers.hpp"
#include "causal/footprint.hpp"
#include "causal/recording.hpp"
#include "study/block_groups.hpp"

namespace attnctl::study {
namespace {

constexpr std::size_t kDonors = 64;

/// Returns the heads of `from`, by layer.
std::map<std::size_t, std::vector<model::HeadId>> by_layer(const std::vector<model::HeadId>& from) {
  std::map<std::size_t, std::vector<model::HeadId>> layers;
  for (const model::HeadId id : from) layers[id.layer].push_back(id);
  return layers;
}

/// Returns the number of ways to choose `count` of `all`, as a double, which may be rounded.
double choices(std::size_t all, std::size_t count) {
  double product = 1;
  for (std::size_t i = 0; i < count; ++i)
    product *= static_cast<double>(all - i) / static_cast<double>(i + 1);
  return product;
}

/// Draws random sets with as many heads as `set` in each layer.
class SetSampler {
 public:
  /// `all` are the heads to draw from. `set` must be a subset of them.
  SetSampler(const std::vector<model::HeadId>& all, std::vector<model::HeadId> set, std::size_t wanted)
      : set_(std::move(set)) {
    double ways = 1;
    std::vector<model::HeadId> of_layers;
    const auto counts = by_layer(set_);
    for (auto& [layer, heads] : by_layer(all)) {
      const auto found = counts.find(layer);
      if (found == counts.end()) continue;
      of_layers.insert(of_layers.end(), heads.begin(), heads.end());
      ways *= choices(heads.size(), found->second.size());
      pools_.emplace_back(std::move(heads), found->second.size());
    }
    for (const std::vector<model::HeadId>& pool : {of_layers, all}) {
      if (ways - 1 >= static_cast<double>(wanted)) break;
      pools_ = {{pool, set_.size()}};
      ways = choices(pool.size(), set_.size());
    }
    count_ = static_cast<std::size_t>(std::min(ways - 1, static_cast<double>(wanted)));
  }

  /// Returns distinct sets other than `set`: the wanted number, or all if there are fewer.
  [[nodiscard]] std::vector<std::vector<model::HeadId>> draw(Random& random) const {
    std::set<std::vector<model::HeadId>> drawn;
    constexpr std::size_t kMostTries = 100'000;  // the number of distinct sets is only an estimate if large
    for (std::size_t tries = 0; drawn.size() < count_ && tries < kMostTries; ++tries) {
      std::vector<model::HeadId> one;
      for (auto [heads, count] : pools_) {
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t j = i + static_cast<std::size_t>(random.next() % (heads.size() - i));
          std::swap(heads[i], heads[j]);
          one.push_back(heads[i]);
        }
      }
      std::ranges::sort(one);
      if (one != set_) drawn.insert(std::move(one));
    }
    return {drawn.begin(), drawn.end()};
  }

 private:
  std::vector<model::HeadId> set_;                                         // ascending
  std::vector<std::pair<std::vector<model::HeadId>, std::size_t>> pools_;  // heads, and how many to draw
  std::size_t count_ = 0;
};

/// Adds the z and the terms of MLPs of all blocks of a corpus.
class MeanSums {
 public:
  MeanSums(std::size_t layers, bool by_position, bool mlps) : by_position_(by_position), mlps_(mlps) {
    z_.resize(layers);
    mlp_.resize(layers);
  }

  void add(const causal::RecordedSequence& sequence) {
    for (std::size_t layer = 0; layer < z_.size(); ++layer) {
      add(sequence.z[layer].view(), z_[layer]);
      if (mlps_ && sequence.mlp[layer].rows() > 0) add(sequence.mlp[layer].view(), mlp_[layer]);
    }
  }
  [[nodiscard]] std::vector<OwnedMatrix<float>> z() const { return means(z_); }
  [[nodiscard]] std::vector<OwnedMatrix<float>> mlp() const { return means(mlp_); }

 private:
  struct RowSums {
    std::vector<double> sums;  // [width]
    std::uint64_t count = 0;
  };
  using Sums = std::vector<RowSums>;  // [1 or positions]

  void add(MatrixView<const float> rows, Sums& sums) const {
    for (std::size_t r = 0; r < rows.rows; ++r) {
      const std::size_t to = by_position_ ? r : 0;
      if (sums.size() <= to) sums.resize(to + 1);
      RowSums& sum = sums[to];
      sum.sums.resize(rows.cols);
      ++sum.count;
      for (std::size_t c = 0; c < rows.cols; ++c) sum.sums[c] += double{rows(r, c)};
    }
  }
  [[nodiscard]] static std::vector<OwnedMatrix<float>> means(const std::vector<Sums>& layers) {
    std::vector<OwnedMatrix<float>> all;
    for (const Sums& sums : layers) {
      OwnedMatrix<float>& mean = all.emplace_back(sums.size(), sums.empty() ? 0 : sums.front().sums.size());
      for (std::size_t r = 0; r < sums.size(); ++r) {
        for (std::size_t c = 0; c < mean.cols(); ++c)
          mean(r, c) = static_cast<float>(sums[r].sums[c] / static_cast<double>(sums[r].count));
      }
    }
    return all;
  }

  bool by_position_, mlps_;
  std::vector<Sums> z_, mlp_;  // [layers]
};

std::string joined_names(const model::ModelConfig& config, const std::vector<model::HeadId>& heads) {
  std::string text;
  for (const model::HeadId head : heads) text += (text.empty() ? "" : "+") + model::head_name(config, head);
  return text;
}

}  // namespace

std::vector<RemovedSet> removed_sets(const model::ModelConfig& config, const forward::Selection& selection,
                                     const SetRequest& request) {
  const std::vector<model::HeadId>& heads = selection.heads;
  std::vector<RemovedSet> sets;
  const auto add = [&](RemovedSet set) {
    if (sets.size() == kMostSets)
      fail(
          Status::limit,
          "--sets: the limit is {} sets; select fewer heads with --heads or --layers, or fewer kinds of sets",
          kMostSets);
    set.head_names = joined_names(config, set.heads);
    sets.push_back(std::move(set));
  };
  const auto add_random = [&](const std::vector<model::HeadId>& of) {
    const auto index = static_cast<std::int64_t>(sets.size()) - 1;
    Random random(request.seed, static_cast<std::uint64_t>(index));
    std::vector<model::HeadId> all = heads;
    all.insert(all.end(), of.begin(), of.end());
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::size_t number = 0;
    for (std::vector<model::HeadId>& drawn : SetSampler(all, of, request.null_sets).draw(random))
      add({fmt::format("random {} for {}", number++, sets[static_cast<std::size_t>(index)].name),
           "random",
           std::move(drawn),
           {},
           index});
  };
  for (const std::string& kind : request.kinds) {
    if (kind == "head") {
      for (const model::HeadId id : heads) add({model::head_name(config, id), kind, {id}, {}});
    } else if (kind == "pair") {
      for (std::size_t a = 0; a < heads.size(); ++a) {
        for (std::size_t b = a + 1; b < heads.size(); ++b)
          add({joined_names(config, {heads[a], heads[b]}), kind, {heads[a], heads[b]}, {}});
      }
    } else if (kind == "layer") {
      for (const auto& [layer, of_layer] : by_layer(heads)) {
        add({"layer " + model::layer_name(config, layer), kind, of_layer, {}});
        add_random(of_layer);
      }
    } else if (kind == "mlp") {
      for (const std::size_t layer : selection.layers()) {
        if (config.layers[layer].mlp.width > 0)
          add({"mlp " + model::layer_name(config, layer), kind, {}, {layer}});
      }
    } else if (kind == "group") {
      for (const NamedHeads& group : request.groups) {
        std::vector<model::HeadId> of_group = group.heads;
        std::ranges::sort(of_group);
        add({group.name, kind, of_group, {}});
        add_random(of_group);
      }
    } else if (kind == "keep") {
      const std::size_t steps = std::min(request.steps, request.order.size());
      for (std::size_t step = 0; step < steps; ++step) {
        const std::size_t kept = request.order.size() * step / steps;
        std::vector<model::HeadId> removed(request.order.begin() + static_cast<std::ptrdiff_t>(kept),
                                           request.order.end());
        std::ranges::sort(removed);
        add({fmt::format("keep {}", kept), kind, removed, {}});
        // All heads are free to be drawn: a random order of removal, not one within the layers.
        const auto index = static_cast<std::int64_t>(sets.size()) - 1;
        Random random(request.seed, static_cast<std::uint64_t>(index));
        for (std::size_t number = 0; number < request.null_sets && kept > 0; ++number) {
          std::vector<model::HeadId> drawn = request.order;
          shuffle(drawn.size(), random, [&](std::size_t i, std::size_t j) { std::swap(drawn[i], drawn[j]); });
          drawn.resize(removed.size());
          std::ranges::sort(drawn);
          add({fmt::format("random {} for keep {}", number, kept), "random", std::move(drawn), {}, index});
        }
      }
    }
  }
  return sets;
}

bool AblationData::removes_mlps() const {
  return std::ranges::any_of(settings->sets, [](const RemovedSet& set) { return !set.mlps.empty(); });
}

AblationData prepare_ablation(const StudyInput& input, Pool& pool, Progress& progress) {
  const AblationSettings& settings = input.settings.ablation;
  const std::uint64_t seed = input.settings.seed;
  const model::Model& model = input.model;
  const model::ModelConfig& config = model.config();
  if (!config.head.present)
    fail(Status::bad_input,
         "{}: the checkpoint has no output head, so removing a head has no measurable effect on predictions; "
         "give a model with an output head",
         escaped(model.name()));
  AblationData data{.settings = &settings, .seed = seed};
  data.next_token = config.predicts_next_token();
  data.mask = input.vocabulary.mask();
  if (!data.next_token && !data.mask)
    fail(
        Status::bad_input,
        "{}: the model predicts masked tokens, but its vocabulary has no mask token ([MASK] or <mask>); give "
        "the tokenizer of the model",
        escaped(model.name()));
  data.mean_output = causal::mean_output_row(model, pool);
  if (settings.replacement == Replacement::zero) return data;

  const MemoryShares shares = share_memory(input, pool.size());
  CorpusOptions options = input.settings.corpus;
  options.probe = {};
  if (!settings.mean_from.empty()) options.files = settings.mean_from;
  CorpusBlocks blocks(options, model, input.vocabulary, input.encoder);
  MeanSums sums(config.layers.size(), settings.by_position, data.removes_mlps());
  std::map<std::uint64_t, input::Sequence> drawn;  // the sequences with the smallest random numbers
  std::uint64_t number = 0;
  Warnings ignored;  // the study repeats them
  progress.begin(settings.replacement == Replacement::mean ? "means" : "donors", 0, "block");
  while (const std::optional<CorpusBlock> block = blocks.next()) {
    throw_if_interrupted();
    if (settings.replacement == Replacement::mean) {
      forward::RunContext context{.pool = pool, .warnings = ignored};
      if (shares.one_layer_at_a_time()) {
        if (!GroupSize(shares, 0, 0).add(needs_of(input, shares, block->batch).memory))
          refuse_block(input, shares, pool.size(), *block);
        context.streamed_rows = causal::kStreamedRows;
      }
      for (const causal::RecordedSequence& sequence :
           causal::record(model, block->batch, data.removes_mlps(), context))
        sums.add(sequence);
    } else {
      for (const input::Sequence& sequence : block->batch.sequences) {
        drawn.emplace(Random(seed, number++).next(), sequence);
        if (drawn.size() > kDonors) drawn.erase(std::prev(drawn.end()));
      }
    }
    progress.advance();
  }
  progress.end();
  if (settings.replacement == Replacement::mean) {
    data.mean_z = sums.z();
    if (data.removes_mlps()) data.mean_mlp = sums.mlp();
  }
  for (auto& [key, sequence] : drawn) data.donors.push_back(std::move(sequence));
  return data;
}

}  // namespace attnctl::study
