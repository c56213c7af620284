#include <atomic>
#include <csignal>
#include <cstdlib>
#include <gmp.h>
#include <new>

#include <unicode/uclean.h>

#include "base/interrupt.hpp"
#include "cli/commands.hpp"

namespace {

/// Ends the program if an allocation failed.
void* checked(void* memory) {
  if (memory == nullptr) attnctl::end_out_of_memory();
  return memory;
}

/// Makes the program end with status 5 where memory is short. Also in ICU, which would return errors that
/// have other causes too, and in GMP and glibc, which would abort. Runs before the constructors of global
/// variables.
[[gnu::constructor(101)]] void install_memory_handlers() {
  // NOLINTBEGIN(cppcoreguidelines-no-malloc,cppcoreguidelines-owning-memory)
  std::set_new_handler(attnctl::end_out_of_memory);
  std::signal(SIGABRT, [](int) { attnctl::end_out_of_memory(); });
  mp_set_memory_functions(
      [](std::size_t size) { return checked(std::malloc(size)); },
      [](void* old, std::size_t, std::size_t size) { return checked(std::realloc(old, size)); },
      [](void* memory, std::size_t) { std::free(memory); });
  UErrorCode status = U_ZERO_ERROR;
  u_setMemoryFunctions(
      nullptr, [](const void*, std::size_t size) { return checked(std::malloc(size)); },
      [](const void*, void* old, std::size_t size) { return checked(std::realloc(old, size)); },
      [](const void*, void* memory) { std::free(memory); }, &status);
  // NOLINTEND(cppcoreguidelines-no-malloc,cppcoreguidelines-owning-memory)
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
