#pragma once

#include <nlohmann/json.hpp>

#include "formats/json/json_events.hpp"

namespace attnctl {

/// As parse_json, for a value that is a part of a file.
[[nodiscard]] nlohmann::ordered_json parse_json_part(const JsonText& text);

}  // namespace attnctl
