#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace attnctl {

/// An open file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int number() const { return number_; }

 private:
  int number_ = -1;
};

/// "No such file or directory": the text of an errno value.
[[nodiscard]] std::string error_text(int error);

/// One read() with EINTR handled and, for a descriptor that does not block, waiting. 0 at the end; `name` is
/// for errors.
[[nodiscard]] std::size_t read_some(int descriptor, const std::string& name, char* to, std::size_t count);

struct RegularFile {
  Descriptor descriptor;
  std::uint64_t length = 0;
};

/// Opens a regular file for reading without ever waiting (a FIFO has no writer to wait for). Throws Error:
/// `absent` where it does not exist or is no regular file, environment where it cannot be opened.
[[nodiscard]] RegularFile open_regular_file(const std::filesystem::path& path, Status absent);

}  // namespace attnctl
