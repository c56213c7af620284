#pragma once

#include "attnctl/analysis/attention_from.hpp"
#include "attnctl/analysis/capture.hpp"
#include "attnctl/analysis/norm_weighting.hpp"
#include "attnctl/analysis/pattern_metrics.hpp"
#include "attnctl/analysis/word_pooling.hpp"

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "cli/analysis_part.hpp"
#include "cli/analysis_request.hpp"
#include "cli/results.hpp"

namespace attnctl::cli {

/// What is kept whole, and where: [components].
using PassTargets = std::vector<std::vector<CaptureTarget>>;

/// What the observers of a pass are made of; all of it outlives them.
struct PassRequest {
  const AnalysisRequest& request;
  const ModelConfig& config;
  const Selection& selection;
  bool metrics = false;
  const std::vector<ComponentHeads>& components;
  const PassTargets& targets;
  const std::vector<WordUnits>& units;  // --by-word
  const Batch& words;
  const std::vector<Question>& questions;
  const std::vector<std::unique_ptr<AnalysisPart>>& analyses;
};

/// All that watches the pass of one run. --by-word shows metrics and shown patterns words, --weighting shows
/// the latter other weights.
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
