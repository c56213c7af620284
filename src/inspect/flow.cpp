#include <memory>
#include <string>
#include <utility>

#include "analysis/mixing/flow.hpp"
#include "base/error.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/rollout_from.hpp"

namespace attnctl::cli {
namespace {

class FlowPart final : public AnalysisPart {
 public:
  explicit FlowPart(const PartInput& input)
      : input_(input), positions_(rollout_positions(input)), flow_(input.request.rollout) {}

  std::vector<Observer*> observers() override { return {&flow_}; }
  HeadsSeen heads_seen() const override { return HeadsSeen::all; }
  Results finish() override;

 private:
  void add_text(Results& results, std::size_t sequence, const Array& flows) const;

  PartInput input_;
  std::vector<std::vector<std::size_t>> positions_;  // [sequences]
  AttentionFlow flow_;
};

void FlowPart::add_text(Results& results, std::size_t sequence, const Array& flows) const {
  const Sequence& of = input_.shown.sequences[sequence];
  const std::vector<std::string> labels = labels_of(input_, of);
  std::vector<std::vector<Cell>> rows;
  for (std::size_t r = 0; r < positions_[sequence].size(); ++r) {
    const std::size_t from = positions_[sequence][r];
    rows.push_back({static_cast<std::int64_t>(from), labels[from], strongest(flows, r, labels)});
  }
  results.text.emplace_back(TextTable{
      fmt::format("Attention flow of input \"{}\" (position:token largest flow, 0 to 1)", escaped(of.id)),
      make_table("", {"from", "token", "flow"}, std::move(rows))});
}

Results FlowPart::finish() {
  Results results;
  List items;
  std::optional<HeatmapPage> page;
  const std::vector<OwnedMatrix<double>> flows = flow_.finish(positions_, input_.session.pool);
  for (std::size_t s = 0; s < flows.size(); ++s) {
    if (positions_[s].empty()) continue;
    const auto values = flows[s].values();
    const Array rows =
        make_array({flows[s].rows(), flows[s].cols()}, std::vector<float>(values.begin(), values.end()));
    add_rows_from(items, input_.shown.sequences[s], positions_[s], rows);
    add_text(results, s, rows);
    add_heatmap(page, "Attention flow", labels_of(input_, input_.shown.sequences[s]), positions_[s], rows);
    results.arrays.push_back({fmt::format("flow_{}", s), rows});
    if (!input_.request.rollout_from.empty())
      results.arrays.push_back({fmt::format("flow_from_{}", s), positions_array(positions_[s])});
  }
  if (page) results.pictures.push_back({"flow", std::move(*page)});
  results.document.sections.push_back({"flow", "flow", std::move(items)});
  return results;
}

}  // namespace

std::unique_ptr<AnalysisPart> make_flow(const PartInput& input) {
  for (const Sequence& sequence : input.batch.sequences) require_flow_length(sequence);
  return std::make_unique<FlowPart>(input);
}

}  // namespace attnctl::cli
