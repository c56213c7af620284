#pragma once

#include <span>
#include <string>

#include "report/text/text.hpp"
#include "results/results.hpp"

namespace attnctl {

/// Formats the blocks as one text, in order. Tables, matrices and charts are preceded by a blank line.
[[nodiscard]] std::string text_page(std::span<const PageBlock> blocks, const TextOptions& options);

}  // namespace attnctl
