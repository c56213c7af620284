#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace attnctl::test {

/// Checks that `act` throws an Error of this status whose message is one line without control bytes and holds
/// each of `parts`.
void check_refusal(const std::function<void()>& act, Status status,
                   const std::vector<std::string_view>& parts);

}  // namespace attnctl::test
