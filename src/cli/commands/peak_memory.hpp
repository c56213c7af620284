#pragma once

#include <optional>

// The peak resident memory of this process, as the system reports it.
namespace attnctl::cli {

/// Resets the peak to the current resident memory. If the system does not support it (Linux before 4.0, no
/// /proc), the peak remains that of the whole process.
void restart_peak_memory();

/// Returns the peak in MiB, including the program and its libraries; nullopt if the system does not report
/// it.
[[nodiscard]] std::optional<double> peak_memory_mib();

}  // namespace attnctl::cli
