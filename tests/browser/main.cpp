#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdio>

#include <doctest/doctest.h>

#include "browser/browser.hpp"

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  if (!attnctl::test::browser_installed()) {
    std::puts("skipped: Chromium is not installed; scripts/bootstrap --browser installs it");
    return 77;  // the SKIP_RETURN_CODE of ctest
  }
  return context.run();
}
