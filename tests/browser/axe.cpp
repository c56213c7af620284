#include "browser/axe.hpp"

#include <filesystem>

#include <doctest/doctest.h>

namespace attnctl::test {

std::optional<std::vector<std::string>> axe_violations(BrowserPage& page) {
  const std::filesystem::path file = ATTNCTL_SOURCE_DIR "/build/browser/node_modules/axe-core/axe.min.js";
  if (!std::filesystem::exists(file)) {
    MESSAGE("skipped: axe-core is not installed; scripts/bootstrap --browser installs it with npm");
    return std::nullopt;
  }
  page.evaluate(slurp(file) + "; 0");
  // Preloading would request the style sheets and media of the page again.
  return page.evaluate(R"(axe.run(document, {resultTypes: ["violations"], preload: false}).then(results =>
      results.violations.flatMap(rule => rule.nodes.map(node =>
          `${rule.id}: ${rule.help}: ${node.target.join(" ")}`))))");
}

}  // namespace attnctl::test
