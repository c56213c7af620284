#include "browser/axe.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

TEST_CASE("axe-core finds a missing alternative text, and requests nothing") {
  const TempDir directory;
  BrowserPage page;
  const std::string begin =
      "<!DOCTYPE html><html lang=en><title>Test</title>"
      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; img-src data:\">"
      "<main><h1>Title</h1>";
  page.open(directory.write("bad.html", begin + "<img src='data:,'></main>"));
  const auto violations = axe_violations(page);
  if (!violations) return;
  CHECK(*violations == std::vector<std::string>{"image-alt: Images must have alternative text: img"});
  page.open(directory.write("good.html", begin + "<p>Text</p></main>"));
  CHECK(axe_violations(page).value().empty());
  CHECK(page.requests().empty());
  CHECK(page.console_messages().empty());
}

}  // namespace
}  // namespace attnctl::test
