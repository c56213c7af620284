#pragma once

#include "tokenizer/normalizers/normalizer.hpp"

namespace attnctl {

/// Replace: each match of a string or a regular expression by literal content.
[[nodiscard]] NormalizerPtr make_replace(const PartConfig& config);

}  // namespace attnctl
