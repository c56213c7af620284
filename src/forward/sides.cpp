#include "forward/sides.hpp"

#include <stdexcept>

namespace attnctl {

Sides sides_of(Component component, const Sequence& sequence) {
  if (!needs_target(component)) return {sequence, sequence};
  if (sequence.target == nullptr) throw std::logic_error("an input without a target");
  return {*sequence.target, component == Component::cross ? sequence : *sequence.target};
}

}  // namespace attnctl
