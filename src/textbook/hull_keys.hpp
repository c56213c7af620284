#pragma once

#include <string>
#include <string_view>

#include "base/matrix_view.hpp"

namespace attnctl {

/// Parses keys of the form "10,0;0,10". `name` is the name of the text, for errors. Throws Error(usage) for
/// anything but numbers, and for keys of different sizes.
[[nodiscard]] OwnedMatrix<double> parse_keys(std::string_view text, const std::string& name);

/// Parses keys from a JSON document such as [[10, 0], [0, 10]]. Throws Error(bad_input).
[[nodiscard]] OwnedMatrix<double> parse_json_keys(const std::string& document, const std::string& name);

}  // namespace attnctl
