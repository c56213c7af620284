#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/files/mapped_file.hpp"

namespace attnctl {

/// The bytes of one file with its name: a mapping, or memory that outlives it (a test's or a fuzzer's).
class FileBytes {
 public:
  explicit FileBytes(MappedFile file);
  FileBytes(std::string_view name, std::span<const std::byte> memory);

  /// As errors show it, escaped. Stays where it is when the object moves.
  [[nodiscard]] const std::string& name() const { return *name_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::string_view text() const;

  /// As MappedFile::forget.
  void forget(std::span<const std::byte> part) const;

 private:
  std::optional<MappedFile> file_;
  std::unique_ptr<const std::string> name_;
  std::span<const std::byte> bytes_;
};

}  // namespace attnctl
