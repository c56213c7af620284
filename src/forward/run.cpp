#include "forward/run.hpp"

#include "base/error.hpp"
#include "forward/block.hpp"
#include "forward/block_pass.hpp"
#include "forward/plan.hpp"

namespace attnctl {
namespace {

void warn(const forward::PassReport& report, const ModelConfig& config, const Batch& batch,
          Warnings& warnings) {
  const auto place = [&](const forward::PassReport::Finding& finding) {
    return fmt::format("input {}, head {}, query {}", escaped(batch.sequences[finding.sequence].id),
                       head_name(config, finding.head), finding.query);
  };
  if (report.fully_masked.count > 0) {
    warnings.add("fully_masked_row",
                 fmt::format("{}: no key is visible, the row is all zeros", place(report.fully_masked)),
                 report.fully_masked.count);
  }
  if (report.non_finite.count > 0) {
    warnings.add("non_finite_pattern",
                 fmt::format("{}: the row of the pattern is not finite", place(report.non_finite)),
                 report.non_finite.count);
  }
}

}  // namespace

void run_forward(const Model& model, const Batch& batch, const Selection& selection,
                 std::span<Observer* const> observers, RunContext& context) {
  check_batch(model, batch);
  Needs needs{.patterns = false};
  for (Observer* const observer : observers) needs |= observer->needs();
  const forward::Plan plan = forward::make_plan(model.name(), model.config(), selection, needs);
  if (needs.logits && !plan.logits) {
    context.warnings.add("no_output_head", "the checkpoint has no output head, there are no logits");
  }
  if (!plan.layers.empty()) require_targets(model.config(), batch, plan.layers.size() - 1);
  for (Observer* const observer : observers) observer->begin(model, batch);
  if (plan.layers.empty()) return;

  const std::vector<forward::Block> blocks = forward::cut_into_blocks(batch, context.packed_rows);
  if (context.progress != nullptr) context.progress->begin("forward", blocks.size() * plan.layers.size());
  forward::BlockPass pass({model, batch, plan, observers, context});
  for (std::size_t first = 0, last = 0; first < blocks.size(); first = last) {
    std::size_t rows = 0;
    do rows += blocks[last++].rows;
    while (last < blocks.size() && rows + blocks[last].rows <= context.streamed_rows);
    pass.run(std::span(blocks).subspan(first, last - first));
  }
  if (context.progress != nullptr) context.progress->end();
  warn(pass.report(), model.config(), batch, context.warnings);
}

}  // namespace attnctl
