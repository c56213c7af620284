#pragma once

#include <optional>
#include <string>
#include <vector>

#include "browser/browser_page.hpp"

namespace attnctl::test {

/// Returns what axe-core (https://github.com/dequelabs/axe-core) finds in the current state of a page, a line
/// "rule: description: selector" for each element that violates an accessibility rule. Returns nullopt, and
/// says that the check is skipped, if axe-core is not installed.
[[nodiscard]] std::optional<std::vector<std::string>> axe_violations(BrowserPage& page);

}  // namespace attnctl::test
