// The allocation functions of C, for attnctl and for the libraries that it loads. Some of these libraries do
// not check what malloc returns (a small product of OpenBLAS), others report a failure as an error of another
// kind (ICU, dlopen). These functions call those of libc, or of a library in LD_PRELOAD. If such a call
// fails, they call the handler of std::set_new_handler, as operator new does: it ends the program. Not built
// with sanitizers, which replace malloc.

#include <cerrno>
#include <cstddef>
#include <dlfcn.h>
#include <new>

namespace {

/// True while the thread looks up a function. dlsym of glibc before 2.34 then calls calloc, and works without
/// the memory if it gets none.
thread_local constinit bool is_looking_up = false;

template <typename Function>
Function* next(const char* name) {
  is_looking_up = true;
  void* const function = dlsym(RTLD_NEXT, name);
  is_looking_up = false;
  return reinterpret_cast<Function*>(function);
}

/// Calls `allocate` until it succeeds. Returns nullptr if there is no handler.
template <typename Allocate>
void* allocated(Allocate&& allocate) {
  for (;;) {
    if (void* const memory = allocate()) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) return nullptr;
    handler();
  }
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) noexcept {
  static auto* const real = next<void*(std::size_t)>("malloc");
  return allocated([&] { return real(size); });
}

void* calloc(std::size_t count, std::size_t size) noexcept {
  if (is_looking_up) return nullptr;
  static auto* const real = next<void*(std::size_t, std::size_t)>("calloc");
  return allocated([&] { return real(count, size); });
}

void* realloc(void* old, std::size_t size) noexcept {
  static auto* const real = next<void*(void*, std::size_t)>("realloc");
  if (size == 0) return real(old, size);  // frees `old` and returns nullptr
  return allocated([&] { return real(old, size); });
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  static auto* const real = next<void*(std::size_t, std::size_t)>("aligned_alloc");
  return allocated([&] { return real(alignment, size); });
}

int posix_memalign(void** place, std::size_t alignment, std::size_t size) noexcept {
  static auto* const real = next<int(void**, std::size_t, std::size_t)>("posix_memalign");
  int error = 0;
  (void)allocated([&]() -> void* {
    error = real(place, alignment, size);
    return error == ENOMEM ? nullptr : place;
  });
  return error;
}

}  // extern "C"
