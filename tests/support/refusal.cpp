#include "support/refusal.hpp"

#include <algorithm>

#include <doctest/doctest.h>

namespace attnctl::test {

void check_refusal(const std::function<void()>& act, Status status,
                   const std::vector<std::string_view>& parts) {
  try {
    act();
  } catch (const Error& error) {
    const std::string message = error.what();
    CAPTURE(message);
    CHECK(error.status() == status);
    CHECK_MESSAGE(escaped(message) == message, "one line, control bytes escaped, UTF-8");
    CHECK_MESSAGE(message.size() < 1000, "a line that can be read");
    for (const std::string_view part : parts) {
      CAPTURE(part);
      CHECK(message.find(part) != std::string::npos);
    }
    return;
  }
  FAIL_CHECK("accepted");
}

}  // namespace attnctl::test
