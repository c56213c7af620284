#include <atomic>
#include <csignal>
#include <cstdlib>
#include <new>

#include "base/interrupt.hpp"
#include "cli/commands.hpp"

namespace {

/// Makes the program end with status 5 where memory is short (allocation.cpp), also if a library aborts then.
/// Runs before the constructors of global variables.
[[gnu::constructor(101)]] void install_memory_handlers() {
  std::set_new_handler(attnctl::end_out_of_memory);
  std::signal(SIGABRT, [](int) { attnctl::end_out_of_memory(); });
}

}  // namespace

int main(int argc, char** argv) {
  static std::atomic<bool> running = true;
  [[maybe_unused]] static const int ignored = std::atexit([] {
    if (running) attnctl::end_out_of_memory();  // libgomp calls exit() if it cannot allocate memory
  });
  const int status = attnctl::cli::run(argc, argv);
  attnctl::set_final_status(status);  // the destructors of global variables may also allocate
  running = false;
  return status;
}
