#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"

namespace attnctl::test {

/// The description of a tensor in a pickle, each part as opcodes.
struct TorchTensor {
  std::string storage = "ctorch\nFloatStorage\n";
  std::string key = "0";
  std::string count = "K\x02";
  std::string offset = std::string("K\0", 2);
  std::string shape = "K\x02\x85";
  std::string strides = "K\x01\x85";
  std::string metadata = {};  // an additional argument
};

/// Returns the opcodes of a short text.
std::string torch_text(std::string_view text);
/// Returns the opcodes that rebuild a tensor.
std::string torch_tensor(const TorchTensor& tensor);
/// Returns the opcodes of a number of up to 8 bytes.
std::string torch_number(std::size_t number);
/// Returns the pickle of a dictionary of tensors.
std::string torch_pickle(const std::vector<std::pair<std::string, TorchTensor>>& tensors);
/// Returns an archive in the format of torch.save with the tensors of a checkpoint (F32 and F16).
std::string torch_file_of(checkpoint::Checkpoint& checkpoint);

}  // namespace attnctl::test
