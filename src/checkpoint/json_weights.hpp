#pragma once

#include <memory>

#include "base/files/mapped_file.hpp"
#include "checkpoint/checkpoint.hpp"

namespace attnctl {

/// JSON weights: {"config": {...}, name: nested arrays of numbers, ...}. A number is kept as float32; one
/// beyond its range is refused. Opening checks everything and keeps no number; tensor() reads them.
[[nodiscard]] std::unique_ptr<Checkpoint> open_json_weights(FileBytes file);

}  // namespace attnctl
