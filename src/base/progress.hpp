#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace attnctl {

enum class ProgressMode { automatic, always, never };

/// A progress bar on standard error for work that takes over a second; `automatic` shows it only on a
/// terminal.
class Progress {
 public:
  Progress(ProgressMode mode, bool quiet);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin(const std::string& label, std::size_t total);
  void advance(std::size_t steps = 1);  // safe from several threads
  void end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attnctl
