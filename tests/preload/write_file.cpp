// Writes a file as attnctl does, for the tests of what happens when that fails:
//   attnctl_write_file PATH BYTES [FIRST]
// FIRST bytes of 'x' through write(), the rest by write_at() where the output can seek.
//   attnctl_write_file --progress auto|always|never|quiet
// shows a progress bar of three steps (quiet: always, but quiet).

#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "base/interrupt.hpp"
#include "base/progress.hpp"

namespace {

void write_file(const char* path, std::size_t size, std::size_t first) {
  attnctl::OutputFile out(path);
  const std::string text(size, 'x');
  const std::string_view head = std::string_view(text).substr(0, first);
  const std::string_view tail = std::string_view(text).substr(head.size());
  out.write(head);
  if (!tail.empty()) out.write_at(head.size(), std::as_bytes(std::span(tail)));
  out.commit();
}

void show_progress(const std::string& mode) {
  using attnctl::ProgressMode;
  const bool quiet = mode == "quiet";
  attnctl::Progress progress(mode == "auto"              ? ProgressMode::automatic
                             : mode == "always" || quiet ? ProgressMode::always
                                                         : ProgressMode::never,
                             quiet);
  progress.begin("work", 3, "step");
  for (int i = 0; i < 3; ++i) progress.advance();
  progress.end();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  attnctl::install_signal_handlers();
  if (std::string(argv[1]) == "--progress") return show_progress(argv[2]), 0;
  const std::size_t size = std::strtoul(argv[2], nullptr, 10);
  try {
    write_file(argv[1], size, argc > 3 ? std::strtoul(argv[3], nullptr, 10) : size);
  } catch (const attnctl::Error& error) {
    std::fprintf(stderr, "attnctl: %s\n", error.what());
    return static_cast<int>(error.status());
  } catch (const attnctl::BrokenPipe&) {
    return 0;
  }
  return 0;
}
