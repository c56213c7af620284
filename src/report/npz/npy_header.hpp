#pragma once

#include <string>
#include <string_view>

#include "base/dtype.hpp"

namespace attnctl {

/// The header of a .npy file, format 1.0: magic, version, length and the description, padded with spaces so
/// that the data begins at a multiple of 64. `descr` is NumPy's name of the type: "<f4".
[[nodiscard]] std::string npy_header(std::string_view descr, const Shape& shape);

}  // namespace attnctl
