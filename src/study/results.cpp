#include "attnctl/study/results.hpp"

#include <cmath>

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

HeadField cell_field(std::string name, const std::vector<Cell>& cells) {
  HeadField field{name, {cells.begin(), cells.end()}, {}};
  field.columns.emplace_back(std::move(name), cells);
  return field;
}

}  // namespace attnctl
