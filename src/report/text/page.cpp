#include "report/text/page.hpp"

#include "base/error.hpp"
#include "report/text/text_chart.hpp"

namespace attnctl {
namespace {

/// Appends blocks to a page.
class TextPage {
 public:
  explicit TextPage(const TextOptions& options) : options_(options) {}

  void operator()(const TextLine& line) {
    if (!line.strong.empty()) text_ += strong(escaped(line.strong), options_);
    text_ += escaped(line.plain) + '\n';
  }

  void operator()(const TextTable& block) {
    begin(block.title);
    TextOptions options = options_;
    if (!options.digits) options.digits = block.digits;
    append_text_table(text_, block.table, options);
  }

  void operator()(const TextMatrices& block) {
    begin(block.title);
    if (block.style == TextMatrices::Style::small_heatmaps)
      return append_text_heatmaps(text_, block.matrices, options_);
    for (const TextMatrix& matrix : block.matrices) {
      block.style == TextMatrices::Style::numbers ? append_text_matrix(text_, matrix, options_)
                                                  : append_text_heatmap(text_, matrix, options_);
    }
  }

  void operator()(const ChartPage& page) {
    for (const Chart& chart : page.charts) {
      begin({});
      append_text_chart(text_, page.table, chart, options_);
    }
  }

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  /// Writes an empty line between blocks, and the title of the block.
  void begin(const std::string& title) {
    if (!text_.empty()) text_ += '\n';
    if (!title.empty()) text_ += strong(escaped(title), options_) + '\n';
  }

  const TextOptions& options_;
  std::string text_;
};

}  // namespace

std::string text_page(std::span<const PageBlock> blocks, const TextOptions& options) {
  TextPage page(options);
  for (const PageBlock& block : blocks) std::visit(page, block);
  return page.take();
}

}  // namespace attnctl
