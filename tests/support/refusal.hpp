#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace attnctl::test {

/// Checks that `act` throws an Error with this status, and that its message is one line without control bytes
/// and contains each of `parts`.
void check_refusal(const std::function<void()>& act, Status status,
                   const std::vector<std::string_view>& parts);

}  // namespace attnctl::test
