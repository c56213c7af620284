#include <cstddef>
#include <cstdint>

#include "fuzz.hpp"

// Runs the only target of this program on the bytes of libFuzzer.
// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attnctl::fuzz;
  attempt([&] { targets().front().run({reinterpret_cast<const char*>(data), size}); });
  return 0;
}
