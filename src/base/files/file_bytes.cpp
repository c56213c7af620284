#include "base/files/file_bytes.hpp"

#include <utility>

#include "base/error.hpp"

namespace attnctl {

FileBytes::FileBytes(MappedFile file)
    : file_(std::move(file)),
      name_(std::make_unique<const std::string>(escaped(file_->path()))),
      bytes_(file_->bytes()) {}

FileBytes::FileBytes(std::string_view name, std::span<const std::byte> memory)
    : name_(std::make_unique<const std::string>(escaped(name))), bytes_(memory) {}

std::string_view FileBytes::text() const {
  return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
}

void FileBytes::forget(std::span<const std::byte> part) const {
  if (file_) file_->forget(part);
}

}  // namespace attnctl
