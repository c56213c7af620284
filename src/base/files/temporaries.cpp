#include "base/files/temporaries.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <unistd.h>

namespace attnctl {
namespace {

static_assert(std::atomic<char*>::is_always_lock_free, "a signal handler reads these");
std::array<std::atomic<char*>, 64> places{};

}  // namespace

std::size_t Temporaries::add(const std::string& path) {
  auto copy = std::make_unique<char[]>(path.size() + 1);
  std::memcpy(copy.get(), path.c_str(), path.size() + 1);
  for (std::size_t i = 0; i < places.size(); ++i) {
    char* expected = nullptr;
    if (places[i].compare_exchange_strong(expected, copy.get())) {
      copy.release();  // NOLINT(bugprone-unused-return-value): owned by its place
      return i;
    }
  }
  return none;
}

// Whoever exchanges a path out of its place owns it: no handler can read one that is being freed.
void Temporaries::forget(std::size_t place) {
  if (place != none) std::unique_ptr<char[]>(places[place].exchange(nullptr)).reset();
}

void Temporaries::remove_all() noexcept {
  std::array<const char*, places.size()> folders{};
  for (std::size_t i = 0; i < places.size(); ++i) {
    const char* path = places[i].exchange(nullptr);  // not freed: the process is about to end
    if (path != nullptr && ::unlink(path) != 0) folders[i] = path;
  }
  for (const char* path : folders) {
    if (path != nullptr) ::rmdir(path);
  }
}

}  // namespace attnctl
