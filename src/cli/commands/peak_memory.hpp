#pragma once

#include <optional>

// The largest memory of this process that was in RAM at a time, as the system counts it.
namespace attnctl::cli {

/// From here on the peak is counted anew. Where the system cannot do so (Linux before 4.0, no /proc), the
/// peak stays that of the whole process.
void restart_peak_memory();

/// In MiB, its program and libraries included; nullopt where the system does not tell.
[[nodiscard]] std::optional<double> peak_memory_mib();

}  // namespace attnctl::cli
