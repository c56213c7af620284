#pragma once

#include <memory>

#include "base/files/mapped_file.hpp"
#include "checkpoint/checkpoint.hpp"

namespace attnctl {

/// Opens JSON weights {"config": {...}, name: nested arrays of numbers, ...}. Values are float32; numbers
/// beyond its range are errors. Opening checks everything but keeps no number; tensor() reads them.
[[nodiscard]] std::unique_ptr<Checkpoint> open_json_weights(FileBytes file);

}  // namespace attnctl
