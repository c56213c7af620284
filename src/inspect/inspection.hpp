#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "analysis/patterns/attention_from.hpp"
#include "analysis/patterns/capture.hpp"
#include "analysis/patterns/norm_weighting.hpp"
#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis/patterns/word_pooling.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/run_results.hpp"
#include "cli/options/analysis_request.hpp"

namespace attnctl::cli {

/// The arrays to capture and their sinks: [components].
using PassTargets = std::vector<std::vector<CaptureTarget>>;

/// The data from which PassObservers is built. All of it must outlive the observers.
struct PassRequest {
  const AnalysisRequest& request;
  const ModelConfig& config;
  const Selection& selection;
  bool metrics = false;
  const std::vector<ComponentHeads>& components;
  const PassTargets& targets;
  const std::vector<WordUnits>& units;  // for --by-word
  const Batch& words;
  const std::vector<Question>& questions;
  const std::vector<std::unique_ptr<AnalysisPart>>& analyses;
};

/// All observers of the forward pass of one run. Under --by-word, the metrics and the shown patterns are
/// computed on words. Under --weighting, the shown patterns are weighted.
class PassObservers {
 public:
  explicit PassObservers(const PassRequest& request);

  [[nodiscard]] std::span<Observer* const> all() const { return all_; }
  [[nodiscard]] HeadsSeen heads_seen() const { return heads_seen_; }
  [[nodiscard]] const PatternMetrics& metrics() const { return metrics_; }
  [[nodiscard]] const AttentionFrom& answers() const { return answers_; }

 private:
  PatternMetrics metrics_;
  AttentionFrom answers_;
  std::deque<Capture> captures_;
  std::deque<WordPooling> pooled_;
  std::deque<NormWeighting> weighted_;
  std::vector<Observer*> all_;
  HeadsSeen heads_seen_ = HeadsSeen::selected;
};

}  // namespace attnctl::cli
