#include "support/panels.hpp"

#include <algorithm>
#include <cstdint>

#include "support/golden.hpp"

namespace attnctl::test {

model::Model open_golden(const std::string& name) {
  static Warnings warnings;  // static, because a model may add warnings throughout its lifetime
  return bind_model(ATTNCTL_SOURCE_DIR "/tests/golden/" + name, warnings);
}

void show(forward::Observer& observer, const forward::AttentionPanel& where, MatrixView<const float> pattern,
          std::size_t panel_rows) {
  for (std::size_t first = 0; first < pattern.rows; first += panel_rows) {
    forward::AttentionPanel panel = where;
    panel.first_query = first;
    panel.pattern = pattern.row_range(first, std::min(panel_rows, pattern.rows - first));
    std::vector<std::uint8_t> masked;
    for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
      const auto row = panel.pattern.row(r);
      masked.push_back(std::all_of(row.begin(), row.end(), [](float w) { return w == 0; }) ? 1 : 0);
    }
    panel.fully_masked = masked;
    const auto part = [&](MatrixView<const float> rows) {
      return rows.data == nullptr ? rows : rows.row_range(first, panel.pattern.rows);
    };
    panel.scores = part(where.scores);
    panel.q = part(where.q);
    panel.z = part(where.z);
    observer.panel(panel);
  }
}

}  // namespace attnctl::test
