#include "study/cost_law.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace attnctl {
namespace {

/// Sums over all trials for the normal equations of the fit. `tokens` and `pairs` are divided by the trial's
/// seconds.
struct Normal {
  double tokens = 0, pairs = 0;  // right-hand side
  double tokens_tokens = 0, tokens_pairs = 0, pairs_pairs = 0;
};

Normal normal_of(std::span<const BlockTrial> trials) {
  Normal sums;
  for (const BlockTrial& trial : trials) {
    if (trial.size.probe) continue;
    const double tokens = static_cast<double>(trial.size.tokens) / trial.seconds;
    const double pairs = static_cast<double>(trial.size.pairs) / trial.seconds;
    sums.tokens += tokens;
    sums.pairs += pairs;
    sums.tokens_tokens += tokens * tokens;
    sums.tokens_pairs += tokens * pairs;
    sums.pairs_pairs += pairs * pairs;
  }
  return sums;
}

void set_terms(const Normal& sums, CostLaw& law) {
  const double scale = sums.tokens_tokens * sums.pairs_pairs;
  const double determinant = scale - sums.tokens_pairs * sums.tokens_pairs;
  constexpr double smallest = 1e-9;  // below this, all trials have sequences of the same length
  if (determinant > smallest * scale) {
    law.token = (sums.tokens * sums.pairs_pairs - sums.pairs * sums.tokens_pairs) / determinant;
    law.pair = (sums.pairs * sums.tokens_tokens - sums.tokens * sums.tokens_pairs) / determinant;
    if (law.token >= 0 && law.pair >= 0) return;
  }
  const bool pairs_alone = law.token < 0;
  law.token = pairs_alone ? 0 : sums.tokens / sums.tokens_tokens;
  law.pair = pairs_alone ? sums.pairs / sums.pairs_pairs : 0;
}

}  // namespace

double CostLaw::seconds(const BlockSize& size) const {
  const auto tokens = static_cast<double>(size.tokens);
  return size.probe ? probe_token * tokens : token * tokens + pair * static_cast<double>(size.pairs);
}

CostLaw fit_cost_law(std::span<const BlockTrial> trials) {
  if (std::ranges::all_of(trials, [](const BlockTrial& trial) { return trial.size.probe; }))
    throw std::logic_error("a law of cost needs a trial of the corpus");
  CostLaw law;
  set_terms(normal_of(trials), law);
  law.probe_token = law.token;
  for (const BlockTrial& trial : trials) {
    if (trial.size.probe) {
      law.probe_token = trial.seconds / static_cast<double>(trial.size.tokens);
    } else {
      law.deviation = std::max(law.deviation, std::abs(law.seconds(trial.size) / trial.seconds - 1));
    }
  }
  return law;
}

}  // namespace attnctl
