#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace attnctl {

/// What the first bytes of a file say it is.
struct Sniffed {
  std::string_view what;    // "a PNG image"
  std::string_view advice;  // what to do about it
};

/// Tells by content; nullopt where the bytes are nothing known.
[[nodiscard]] std::optional<Sniffed> sniff(std::string_view content);

}  // namespace attnctl
