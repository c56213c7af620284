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

// dlsym of glibc before 2.34 calls calloc, and works without the memory if it gets none. It also forgets the
// error that dlerror is about to return, so the first allocation looks up all functions.
thread_local constinit bool is_looking_up = false;

template <typename Function>
Function* next(const char* name) {
  is_looking_up = true;
  void* const function = dlsym(RTLD_NEXT, name);
  is_looking_up = false;
  return reinterpret_cast<Function*>(function);
}

struct AllocationFunctions {
  void* (*malloc)(std::size_t) = next<void*(std::size_t)>("malloc");
  void* (*calloc)(std::size_t, std::size_t) = next<void*(std::size_t, std::size_t)>("calloc");
  void* (*realloc)(void*, std::size_t) = next<void*(void*, std::size_t)>("realloc");
  void* (*aligned_alloc)(std::size_t, std::size_t) = next<void*(std::size_t, std::size_t)>("aligned_alloc");
  int (*posix_memalign)(void**, std::size_t,
                        std::size_t) = next<int(void**, std::size_t, std::size_t)>("posix_memalign");
};

const AllocationFunctions& real() {
  static const AllocationFunctions functions;
  return functions;
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
  return allocated([&] { return real().malloc(size); });
}

void* calloc(std::size_t count, std::size_t size) noexcept {
  if (is_looking_up) return nullptr;
  return allocated([&] { return real().calloc(count, size); });
}

void* realloc(void* old, std::size_t size) noexcept {
  if (size == 0) return real().realloc(old, size);  // frees `old` and returns nullptr
  return allocated([&] { return real().realloc(old, size); });
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return allocated([&] { return real().aligned_alloc(alignment, size); });
}

int posix_memalign(void** place, std::size_t alignment, std::size_t size) noexcept {
  int error = 0;
  (void)allocated([&]() -> void* {
    error = real().posix_memalign(place, alignment, size);
    return error == ENOMEM ? nullptr : place;
  });
  return error;
}

}  // extern "C"
