#pragma once

#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl {

/// Throws Error(bad_input) where a logit cannot be traced back: without an output head, for keys that are not
/// the queries' own, for mechanisms that nothing derives.
void check_gradient(const Model& model, const Sequence& sequence);

}  // namespace attnctl
