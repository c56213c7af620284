#pragma once

#include <cstddef>
#include <memory>

namespace attnctl {

/// `count` floats, their values undefined, for large arrays that are written once: nothing is cleared first,
/// and the system is asked for huge pages, so that it hands out memory two megabytes at a time and not four
/// kilobytes. Throws std::bad_alloc.
[[nodiscard]] std::shared_ptr<float> fresh_floats(std::size_t count);

}  // namespace attnctl
