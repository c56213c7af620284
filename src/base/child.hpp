#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace attnctl {

/// What a child process sent before it ended.
struct ChildResult {
  std::string out;                // the result of the work, or why it failed
  std::string err;                // what libraries printed
  std::optional<Status> failure;  // nullopt: the work returned
};

/// Calls work() in a copy of this process, so that a library in C that aborts or crashes where memory is
/// short does not end this process; that gives Status::limit. The copy has no other threads, so work() must
/// not use a Pool. An exception of work() gives its status and message. Throws Error(limit) if there is no
/// memory for the copy, and Error(interrupted) after an interrupt.
[[nodiscard]] ChildResult run_in_child(const std::function<std::string()>& work);

}  // namespace attnctl
