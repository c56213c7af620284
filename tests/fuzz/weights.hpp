#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/numbers.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/readers.hpp"
#include "formats/zip.hpp"
#include "fuzz.hpp"

namespace attnctl::fuzz {

/// Returns a checkpoint of the bytes, which must outlive it. Nothing exists in the folder of their file.
inline std::unique_ptr<checkpoint::Checkpoint> read_bytes(std::string_view bytes,
                                                          decltype(checkpoint::read_gguf)* read) {
  auto checkpoint = std::make_unique<checkpoint::Checkpoint>();
  Warnings warnings;
  read(checkpoint->map("/nonexistent/folder/fuzz", std::as_bytes(std::span(bytes))), *checkpoint, warnings);
  checkpoint->sort();
  return checkpoint;
}

/// Reads the bytes as a weights file of one format, with the values of all tensors.
inline std::unique_ptr<checkpoint::Checkpoint> read_values(std::string_view bytes,
                                                           decltype(checkpoint::read_gguf)* read) {
  auto checkpoint = read_bytes(bytes, read);
  for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i) {
    const checkpoint::TensorInfo& info = checkpoint->tensors()[i];
    require(checkpoint->find(info.name) == i, "each name finds its tensor");
    attempt([&] {
      const checkpoint::TensorView view = checkpoint->tensor(i);
      const auto count = checked_product(view.shape);
      require(count && view.bytes.size() == *count * size_of(view.dtype), "the bytes are those of the shape");
      std::vector<float> values(*count);
      convert(view.dtype, view.bytes, std::span(values));
    });
    checkpoint->release(i);
  }
  return checkpoint;
}

/// Returns an archive with the checksums of its stored members corrected, so that changed members are read.
inline std::string with_checksums(std::string_view archive) {
  std::string bytes(archive);
  const auto number = [&](std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, size);
    return value;
  };
  const std::size_t end = bytes.rfind("PK\x05\x06");
  if (end == std::string::npos || bytes.size() - end < 22) return bytes;
  for (std::size_t at = number(end + 16, 4); at + 46 <= end && bytes.compare(at, 4, "PK\x01\x02") == 0;
       at += 46 + number(at + 28, 2) + number(at + 30, 2) + number(at + 32, 2)) {
    const std::size_t local = number(at + 42, 4);
    if (number(at + 10, 2) != 0 || local + 30 > bytes.size()) continue;
    const std::size_t begin = local + 30 + number(local + 26, 2) + number(local + 28, 2);
    const std::size_t size = number(at + 20, 4);
    if (begin > bytes.size() || size > bytes.size() - begin) continue;
    const std::uint32_t crc = formats::crc32_of(std::as_bytes(std::span(bytes).subspan(begin, size)));
    std::memcpy(bytes.data() + at + 16, &crc, 4);
    if (number(local + 14, 4) != 0) std::memcpy(bytes.data() + local + 14, &crc, 4);
  }
  return bytes;
}

}  // namespace attnctl::fuzz
