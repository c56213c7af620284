#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "base/checked.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "checkpoint/checkpoint.hpp"

namespace attnctl::fuzz {

/// The fuzzer's bytes as a file.
inline FileBytes file_of(const std::uint8_t* data, std::size_t size) {
  return {"fuzz", std::as_bytes(std::span(data, size))};
}

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

}  // namespace attnctl::fuzz
