#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "base/files/mapped_file.hpp"

namespace attnctl {

/// Reads a GGUF file forward; what would pass its end is refused before anything is made of it.
class GgufCursor {
 public:
  explicit GgufCursor(const FileBytes& file) : file_(file) {}

  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] std::span<const std::byte> since(std::size_t begin) const {
    return file_.bytes().subspan(begin, at_ - begin);
  }

  std::span<const std::byte> take(std::uint64_t size, std::string_view what) {
    const std::size_t left = file_.bytes().size() - at_;
    if (size > left) {
      fail(Status::bad_input,
           "{}: {} @byte {}: got {} bytes up to the end, need {}; was it downloaded whole?", file_.name(),
           what, at_, left, size);
    }
    const auto taken = file_.bytes().subspan(at_, static_cast<std::size_t>(size));
    at_ += taken.size();
    return taken;
  }

  template <typename Number>
  Number number(std::string_view what) {
    Number number{};
    std::memcpy(&number, take(sizeof number, what).data(), sizeof number);
    return number;
  }

  std::string_view string(std::string_view what) {
    const auto text = take(number<std::uint64_t>(what), what);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  /// A count of things of at least `each` bytes, all of which must still follow.
  std::uint64_t count(std::size_t each, std::string_view what) {
    const std::size_t where = at_;
    const auto count = number<std::uint64_t>(what);
    const std::size_t left = file_.bytes().size() - at_;
    if (count > left / each) {
      fail(Status::bad_input,
           "{}: {} @byte {}: got a count of {}, need at most {} for the {} bytes that follow", file_.name(),
           what, where, count, left / each, left);
    }
    return count;
  }

 private:
  const FileBytes& file_;
  std::size_t at_ = 0;
};

}  // namespace attnctl
