#pragma once

namespace attnctl {

/// Seconds of processor time that this thread has had: what other programs take of a busy machine does not
/// count, and neither does waiting.
[[nodiscard]] double thread_seconds();

}  // namespace attnctl
