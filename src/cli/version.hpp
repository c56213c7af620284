#pragma once

#include <string>

namespace attnctl::cli {

/// Returns for example "attnctl 0.1.0 (OpenBLAS 0.3.21, kernel SkylakeX, avx512)".
[[nodiscard]] std::string version_text();
/// Returns for example "0.1.0".
[[nodiscard]] std::string version_number();

}  // namespace attnctl::cli
