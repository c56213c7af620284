#pragma once

#include <string>

namespace attn {

/// Returns the version of the library, such as "0.1.0".
[[nodiscard]] std::string version();

}  // namespace attn
