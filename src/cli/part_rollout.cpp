#include "attnctl/analysis/rollout.hpp"
#include "attnctl/analysis/word_pooling.hpp"

#include <memory>
#include <string>
#include <utility>

#include "cli/analysis_part.hpp"
#include "cli/shapes.hpp"

namespace attnctl::cli {
namespace {

/// Over tokens, whose residual stream it follows; words are pooled at the end.
class RolloutPart final : public AnalysisPart {
 public:
  explicit RolloutPart(const PartInput& input) : input_(input) {}

  std::vector<Observer*> observers() override { return {&rollout_}; }
  bool all_heads() const override { return true; }
  std::uint64_t values() const override {
    std::uint64_t count = 0;
    for (const Sequence& sequence : input_.shown.sequences) count += sequence.queries() * sequence.queries();
    return count;
  }
  PartResults finish() override;

 private:
  PartInput input_;
  Rollout rollout_;
};

PartResults RolloutPart::finish() {
  PartResults results;
  List items;
  std::vector<OwnedMatrix<double>> matrices = rollout_.finish();
  for (std::size_t s = 0; s < matrices.size(); ++s) {
    if (input_.request.by_word) {
      matrices[s] = pool_matrix(std::as_const(matrices[s]).view(), input_.units[s], input_.request.pool_from);
    }
    const auto values = matrices[s].values();
    const Array array = make_array({matrices[s].rows(), matrices[s].cols()},
                                   std::vector<float>(values.begin(), values.end()));
    for (std::size_t from = 0; from < matrices[s].rows(); ++from) {
      Record record;
      record.set("input", input_.shown.sequences[s].id)
          .set("from", from)
          .set("values", item_of(array, from, 1));
      items.emplace_back(std::move(record));
    }
    results.arrays.push_back({"rollout_" + std::to_string(s), array});
  }
  results.sections.push_back({"rollout", "rollout", std::move(items)});
  return results;
}

}  // namespace

std::unique_ptr<AnalysisPart> make_rollout(const PartInput& input) {
  return std::make_unique<RolloutPart>(input);
}

}  // namespace attnctl::cli
