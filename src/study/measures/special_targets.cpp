#include "study/measures/special_targets.hpp"

#include "input/batch.hpp"
#include "study/measures/token_names.hpp"

namespace attnctl {

std::map<std::int64_t, std::vector<std::size_t>> special_targets(const Sequence& sequence,
                                                                 TokenNames& names) {
  std::map<std::int64_t, std::vector<std::size_t>> targets;
  targets[kFirstPosition] = {0};
  for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
    if (sequence.special[i] == 0) continue;
    targets[sequence.ids[i]].push_back(i);
    names.add(sequence, i);
  }
  return targets;
}

std::string target_name(std::int64_t target, const TokenNames& names) {
  return target == kFirstPosition ? "position 0" : names.of(target);
}

Cell target_token(std::int64_t target, const TokenNames& names) {
  return target == kFirstPosition ? Cell() : Cell(names.of(target));
}

Cell target_position(std::int64_t target) {
  return target == kFirstPosition ? Cell(std::int64_t{0}) : Cell();
}

}  // namespace attnctl
