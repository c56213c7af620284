#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "forward/attention/visibility.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"

namespace attnctl::forward {

/// What ALiBi (Press, Smith and Lewis 2022) adds to one head's scores: slope times the key's position. That
/// it is not slope times the distance makes no difference to a softmax over the keys.
class Alibi {
 public:
  /// Adds nothing where the layer has none.
  Alibi(const AttentionConfig& config, const Sequence& sequence, std::size_t head);

  /// To the scaled scores of these keys, whatever the query.
  void add(KeySteps keys, std::span<float> scores) const;

 private:
  std::vector<float> added_;  // [keys] or empty
};

}  // namespace attnctl::forward
