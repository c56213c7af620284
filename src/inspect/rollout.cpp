#include <memory>
#include <string>
#include <utility>

#include "analysis/mixing/rollout.hpp"
#include "analysis/patterns/word_pooling.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/rollout_from.hpp"

namespace attnctl::cli {
namespace {

/// Attention rollout over tokens, because it follows their residual stream. Pools the words at the end.
class RolloutPart final : public AnalysisPart {
 public:
  explicit RolloutPart(const PartInput& input)
      : input_(input), positions_(rollout_positions(input)), rollout_(input.request.rollout) {}

  std::vector<Observer*> observers() override { return {&rollout_}; }
  HeadsSeen heads_seen() const override { return HeadsSeen::all; }
  std::uint64_t values() const override {
    std::uint64_t count = 0;
    for (std::size_t s = 0; s < positions_.size(); ++s) {
      count += 2 * positions_[s].size() * input_.shown.sequences[s].queries();
    }
    return count;
  }
  Results finish() override;

 private:
  [[nodiscard]] Array asked_rows(const OwnedMatrix<double>& tokens, std::size_t sequence) const;
  void add_text(Results& results, std::size_t sequence, const Array& rolled, const Array& raw) const;

  PartInput input_;
  std::vector<std::vector<std::size_t>> positions_;  // [sequences]
  Rollout rollout_;
};

Array RolloutPart::asked_rows(const OwnedMatrix<double>& tokens, std::size_t sequence) const {
  if (!input_.request.by_word) return rows_of(tokens.view(), positions_[sequence]);
  const OwnedMatrix<double> words =
      pool_matrix(tokens.view(), input_.units[sequence], input_.request.pool_from);
  return rows_of(words.view(), positions_[sequence]);
}

/// Adds one row per key if one position is requested. Otherwise adds one row per position with its strongest
/// keys.
void RolloutPart::add_text(Results& results, std::size_t sequence, const Array& rolled,
                           const Array& raw) const {
  const Sequence& of = input_.shown.sequences[sequence];
  const std::vector<std::string> labels = labels_of(input_, of);
  const std::vector<std::size_t>& positions = positions_[sequence];
  std::vector<std::vector<Cell>> rows;
  if (positions.size() == 1) {
    for (std::size_t key = 0; key < labels.size(); ++key) {
      rows.push_back({static_cast<std::int64_t>(key), labels[key],
                      std::get<std::span<const float>>(raw.values)[key],
                      std::get<std::span<const float>>(rolled.values)[key]});
    }
    results.text.emplace_back(TextTable{
        fmt::format("Rollout from {}:{} (input \"{}\")", positions[0], labels[positions[0]], escaped(of.id)),
        make_table("", {"position", "token", "last layer", "rollout"}, std::move(rows)), 3});
    return;
  }
  for (std::size_t r = 0; r < positions.size(); ++r) {
    rows.push_back({static_cast<std::int64_t>(positions[r]), labels[positions[r]],
                    strongest(rolled, r, labels), strongest(raw, r, labels)});
  }
  results.text.emplace_back(
      TextTable{fmt::format("Rollout of input \"{}\" (position:token share)", escaped(of.id)),
                make_table("", {"from", "token", "rollout", "last layer"}, std::move(rows))});
}

Results RolloutPart::finish() {
  Results results;
  List items;
  List raw_items;
  std::optional<HeatmapPage> page;
  const std::vector<OwnedMatrix<double>> rolled = rollout_.finish();
  const std::vector<OwnedMatrix<double>> raw = rollout_.take_last_layer();
  for (std::size_t s = 0; s < rolled.size(); ++s) {
    if (positions_[s].empty()) continue;
    const Array rows = asked_rows(rolled[s], s);
    const Array raw_rows = asked_rows(raw[s], s);
    add_rows_from(items, input_.shown.sequences[s], positions_[s], rows);
    add_rows_from(raw_items, input_.shown.sequences[s], positions_[s], raw_rows);
    add_text(results, s, rows, raw_rows);
    add_heatmap(page, "Attention rollout", labels_of(input_, input_.shown.sequences[s]), positions_[s], rows);
    results.arrays.push_back({fmt::format("rollout_{}", s), rows});
    if (!input_.request.rollout_from.empty())
      results.arrays.push_back({fmt::format("rollout_from_{}", s), positions_array(positions_[s])});
  }
  if (page) results.pictures.push_back({"rollout", std::move(*page)});
  results.document.sections.push_back({"rollout", "rollout", std::move(items)});
  results.document.sections.push_back({"rollout_last_layer", "rollout_last_layer", std::move(raw_items)});
  return results;
}

}  // namespace

std::unique_ptr<AnalysisPart> make_rollout(const PartInput& input) {
  return std::make_unique<RolloutPart>(input);
}

}  // namespace attnctl::cli
