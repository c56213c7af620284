#pragma once

namespace attnctl::test {

/// True if this program and attnctl were built with AddressSanitizer or ThreadSanitizer, which need memory
/// and address space of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // GCC
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)  // Clang
inline constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace attnctl::test
