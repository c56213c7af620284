#include "study/results.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

namespace attnctl {

Cell real_cell(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Cell(static_cast<float>(*value)) : Cell();
}

Cell count_cell(std::uint64_t count) {
  return static_cast<std::int64_t>(count);
}

HeadField moments_field(std::string name, const std::vector<MomentsSummary>& summaries) {
  HeadField field;
  std::vector<Cell> means;
  std::vector<Cell> variances;
  std::vector<Cell> counts;
  for (const MomentsSummary& each : summaries) {
    means.push_back(real_cell(each.mean));
    variances.push_back(real_cell(each.variance));
    counts.push_back(count_cell(each.count));
    Record record;
    record.set("mean", means.back()).set("variance", variances.back()).set("count", counts.back());
    field.values.emplace_back(std::move(record));
  }
  field.columns = {{name, std::move(means)},
                   {name + "_variance", std::move(variances)},
                   {name + "_count", std::move(counts)}};
  field.name = std::move(name);
  return field;
}

void StudyResults::append(StudyResults&& other) {
  const auto move = [](auto& from, auto& to) { std::ranges::move(from, std::back_inserter(to)); };
  move(other.evidence, evidence);
  tell_roles = tell_roles || other.tell_roles;
  move(other.null_evidence, null_evidence);
  move(other.head_fields, head_fields);
  move(other.strongest, strongest);
  move(other.summary.fields, summary.fields);
  Results::append(std::move(other));
}

void add_strongest(StudyResults& results, std::vector<StrongHead> heads) {
  constexpr std::size_t most = 3;
  std::ranges::stable_sort(heads, std::ranges::greater(), &StrongHead::value);
  heads.resize(std::min(heads.size(), most));
  std::ranges::move(heads, std::back_inserter(results.strongest));
}

HeadField cell_field(std::string name, const std::vector<Cell>& cells) {
  HeadField field{name, {cells.begin(), cells.end()}, {}};
  field.columns.emplace_back(std::move(name), cells);
  return field;
}

}  // namespace attnctl
