#include "inspect/inspection.hpp"

#include <algorithm>

namespace attnctl::cli {
namespace {

std::vector<AttentionQuestion> positions_of(const std::vector<Question>& questions) {
  std::vector<AttentionQuestion> positions;
  for (const Question& question : questions) positions.push_back(question.positions);
  return positions;
}

}  // namespace

PassObservers::PassObservers(const PassRequest& request)
    : metrics_(request.selection, request.request.selection.per_input),
      answers_(request.selection, positions_of(request.questions)) {
  std::vector<Observer*> shown;  // observers to which --weighting applies
  if (request.metrics) all_.push_back(&metrics_);
  if (!request.questions.empty()) shown.push_back(&answers_);
  for (std::size_t c = 0; c < request.components.size(); ++c) {
    if (request.targets[c].empty()) continue;
    const CaptureLayout layout(request.components[c].selection, request.config);
    shown.push_back(&captures_.emplace_back(layout, request.targets[c]));
  }
  const auto pool = [&](std::vector<Observer*>& observers) {
    if (!request.request.by_word || observers.empty()) return;
    observers = {&pooled_.emplace_back(request.selection, request.units, request.words,
                                       request.request.pool_from, observers)};
  };
  pool(all_);
  pool(shown);
  if (request.request.weighting != Weighting::weights && !shown.empty())
    shown = {&weighted_.emplace_back(request.selection, request.request.weighting, shown)};
  all_.insert(all_.end(), shown.begin(), shown.end());
  for (const auto& analysis : request.analyses) {
    for (Observer* const observer : analysis->observers()) all_.push_back(observer);
    heads_seen_ = std::max(heads_seen_, analysis->heads_seen());
  }
}

}  // namespace attnctl::cli
