#include <algorithm>

#include "forward/block_pass.hpp"

// What observers are shown of a block, besides panels.
namespace attnctl::forward {

void BlockPass::show_stream(const Block& block, std::size_t index, MatrixView<const float> x) {
  for (const Part& part : block.parts) {
    for (Observer* const observer : inputs_.observers) {
      if (!observer->needs().stream) continue;
      observer->stream(part.sequence, index, x.row_range(part.first_query, part.queries));
    }
  }
}

void BlockPass::show_output(const Block& block, std::size_t index, MatrixView<const float> output) {
  for (const Part& part : block.parts) {
    for (Observer* const observer : inputs_.observers) {
      if (!observer->needs().output) continue;
      observer->output(part.sequence, index, output.row_range(part.first_query, part.queries));
    }
  }
}

void BlockPass::show_routing(const Block& block, std::size_t index, std::span<const ExpertRoute> routes) {
  for (const Part& part : block.parts) {
    for (Observer* const observer : inputs_.observers) {
      if (!observer->needs().routing) continue;
      observer->routing(part.sequence, index, routes.subspan(part.first_query, part.queries));
    }
  }
}

void BlockPass::show_logits(const Block& block, MatrixView<const float> x) {
  const std::size_t step = head_.rows_at_once();
  for (std::size_t first = 0; first < x.rows; first += step) {
    const std::size_t last = std::min(x.rows, first + step);
    const MatrixView<const float> logits = head_.logits(x.row_range(first, last - first));
    for (const Part& part : block.parts) {
      const std::size_t begin = std::max(first, part.first_query);
      const std::size_t end = std::min(last, part.first_query + part.queries);
      if (begin >= end) continue;
      for (Observer* const observer : inputs_.observers) {
        if (!observer->needs().logits) continue;
        observer->logits(part.sequence, begin - part.first_query,
                         logits.row_range(begin - first, end - begin));
      }
    }
  }
}

}  // namespace attnctl::forward
