#include "inspect/rollout_from.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "inspect/describe.hpp"
#include "input/token_query.hpp"

namespace attnctl::cli {

std::vector<std::vector<std::size_t>> rollout_positions(const PartInput& input) {
  const std::string& from = input.request.rollout_from;
  std::vector<std::vector<std::size_t>> positions;
  bool any = false;
  for (const Sequence& sequence : input.shown.sequences) {
    std::vector<std::size_t>& found = positions.emplace_back();
    if (from.empty()) {
      found.resize(sequence.queries());
      std::iota(found.begin(), found.end(), std::size_t{0});
    } else {
      found = find_word(sequence, input.open.vocabulary, from);
    }
    any |= !found.empty();
    if (!found.empty()) continue;
    input.session.warnings.add(
        "from_not_found", fmt::format("--rollout-from: \"{}\" is not in input \"{}\"", from, sequence.id));
  }
  if (!any) fail(Status::usage, "--rollout-from: \"{}\" is in none of the inputs", escaped(from));
  return positions;
}

Array rows_of(MatrixView<const double> values, const std::vector<std::size_t>& positions) {
  std::vector<float> rows;
  rows.reserve(positions.size() * values.cols);
  for (const std::size_t position : positions) {
    for (const double value : values.row(position)) rows.push_back(static_cast<float>(value));
  }
  return make_array({positions.size(), values.cols}, std::move(rows));
}

Array positions_array(const std::vector<std::size_t>& positions) {
  return make_array({positions.size()}, std::vector<std::int64_t>(positions.begin(), positions.end()));
}

void add_heatmap(std::optional<HeatmapPage>& page, const std::string& title,
                 const std::vector<std::string>& labels, const std::vector<std::size_t>& positions,
                 const Array& rows) {
  if (!page) {
    page.emplace();
    page->scale = {.diverging = false, .low = 0, .high = 1, .label = title};
  }
  std::vector<std::string> from;
  for (const std::size_t position : positions) from.push_back(labels[position]);
  page->heatmaps.push_back(
      {title, "Input token", "Position of the last layer", labels, std::move(from), rows});
  if (page->heatmaps.size() > 1) page->title = title;
}

void add_rows_from(List& items, const Sequence& sequence, const std::vector<std::size_t>& positions,
                   const Array& rows) {
  for (std::size_t r = 0; r < positions.size(); ++r) {
    Record record;
    record.set("input", sequence.id).set("from", positions[r]).set("values", item_of(rows, r, 1));
    items.emplace_back(std::move(record));
  }
}

std::string strongest(const Array& rows, std::size_t row, const std::vector<std::string>& labels) {
  constexpr std::size_t most = 5;
  const std::size_t n = rows.shape[1];
  const std::span<const float> values = std::get<std::span<const float>>(rows.values).subspan(row * n, n);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  std::string text;
  for (std::size_t i = 0; i < std::min(most, n); ++i) {
    text += fmt::format("{}{}:{} {:.2f}", i == 0 ? "" : "  ", order[i], labels[order[i]], values[order[i]]);
  }
  return text;
}

std::vector<std::string> labels_of(const PartInput& input, const Sequence& sequence) {
  std::vector<std::string> labels;
  for (const std::string& token : sequence.tokens) labels.push_back(input.open.vocabulary.plain(token));
  for (std::size_t i = labels.size(); i < sequence.queries(); ++i) labels.push_back(std::to_string(i));
  return labels;
}

}  // namespace attnctl::cli
