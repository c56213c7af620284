#pragma once

#include <span>
#include <string>

#include "report/text/text.hpp"
#include "results/results.hpp"

namespace attnctl {

/// Returns a text page: its blocks in order, each table, matrix and chart after a blank line.
[[nodiscard]] std::string text_page(std::span<const PageBlock> blocks, const TextOptions& options);

}  // namespace attnctl
