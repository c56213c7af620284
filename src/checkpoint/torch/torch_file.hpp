#pragma once

#include <memory>

#include "base/files/mapped_file.hpp"
#include "checkpoint/checkpoint.hpp"

namespace attnctl {

/// A file of torch.save (pytorch_model.bin, .pt, .pth), never executed: a dictionary of names to tensors, or
/// one that has exactly one such dictionary, under "state_dict", "model_state_dict" or "model". What else is
/// in the dictionary is left alone, counted in the warning "ignored_value". Tensors that are row-major lie in
/// the file; others are copied when they are asked for.
[[nodiscard]] std::unique_ptr<Checkpoint> open_torch_file(FileBytes file, Warnings& warnings);

}  // namespace attnctl
