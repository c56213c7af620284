#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/readers.hpp"

namespace attnctl::fuzz {

/// Opens and reads everything; the only acceptable failure is an Error of one printable line.
template <typename Open>
void read_all(Open open) {
  try {
    const std::unique_ptr<checkpoint::Checkpoint> checkpoint = open();
    for (std::size_t i = 0; i < checkpoint->tensors().size(); ++i) {
      const checkpoint::TensorInfo& info = checkpoint->tensors()[i];
      if (checkpoint->find(info.name) != i) std::abort();
      const checkpoint::TensorView view = checkpoint->tensor(i);
      const auto count = checked_product(view.shape);
      if (!count || view.bytes.size() != *count * size_of(view.dtype)) std::abort();
      std::vector<float> values(*count);
      convert(view.dtype, view.bytes, std::span(values));
      checkpoint->release(i);
    }
  } catch (const Error& error) {
    if (escaped(error.what()) != error.what()) std::abort();
  }
}

/// Reads the fuzzer's bytes as a weights file of one format. Nothing exists in the folder of the file.
inline void read_all(const std::uint8_t* data, std::size_t size, decltype(checkpoint::read_gguf)* read) {
  read_all([&] {
    auto checkpoint = std::make_unique<checkpoint::Checkpoint>();
    Warnings warnings;
    const auto bytes = std::as_bytes(std::span(data, size));
    read(checkpoint->map("/nonexistent/folder/fuzz", bytes), *checkpoint, warnings);
    return checkpoint;
  });
}

}  // namespace attnctl::fuzz
