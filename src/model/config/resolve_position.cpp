#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "model/config/resolve.hpp"

namespace attnctl {
namespace {

/// 2^(-8 t / heads) for t = 1 to heads.
std::vector<float> slopes_of_power(std::size_t heads) {
  std::vector<float> slopes(heads);
  for (std::size_t t = 0; t < heads; ++t) {
    slopes[t] = static_cast<float>(std::exp2(-8.0 * static_cast<double>(t + 1) / static_cast<double>(heads)));
  }
  return slopes;
}

}  // namespace

std::vector<float> alibi_slopes(AlibiSlopes rule, std::size_t heads) {
  std::size_t power = 1;
  while (2 * power <= heads) power *= 2;
  if (power == heads) return slopes_of_power(heads);
  const std::vector<float> finer = slopes_of_power(2 * power);
  std::vector<float> slopes;
  if (rule == AlibiSlopes::nearest_power) {
    slopes = slopes_of_power(power);
    for (std::size_t t = 0; slopes.size() < heads; t += 2) slopes.push_back(finer[t]);
  } else {
    for (std::size_t t = 1; t < finer.size(); t += 2) slopes.push_back(finer[t]);
    for (std::size_t t = 0; slopes.size() < heads; t += 2) slopes.push_back(finer[t]);
  }
  return slopes;
}

std::vector<bool> resolve_turning_layers(const RotarySpec& spec, const ConfigReader& config,
                                         std::size_t count) {
  std::vector<bool> turning(count, true);
  const auto listed = spec.layers_without.empty() ? std::nullopt : config.find(spec.layers_without);
  if (listed) {
    const auto wrong = [](const auto& one) { return one != 0 && one != 1; };
    if (!listed->json->is_array() || listed->json->size() != count ||
        std::ranges::any_of(*listed->json, wrong)) {
      config.refuse(*listed,
                    fmt::format("a list of {}, 1 for each layer that turns and 0 for others", count));
    }
    for (std::size_t i = 0; i < count; ++i) turning[i] = (*listed->json)[i] == 1;
    return turning;
  }
  if (spec.every_without.empty()) return turning;
  const std::size_t every = config.size({{spec.every_without}, spec.every_otherwise});
  for (std::size_t i = 0; i < count; ++i) turning[i] = (i + 1) % every != 0;
  return turning;
}

}  // namespace attnctl
