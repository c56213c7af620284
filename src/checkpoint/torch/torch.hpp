#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/mapped_file.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/torch/pickle.hpp"
#include "formats/zip/zip_records.hpp"

namespace attnctl {

/// The objects of a torch.save file, and the bytes of its storages.
struct TorchLayout {
  std::unique_ptr<Pickle> pickle;
  std::vector<std::span<const std::byte>> storages;  // of pickle->storages()
  std::vector<std::size_t> members;                  // index in `archive` of each storage
  std::vector<StoredMember> archive;                 // empty for files from before torch 1.6
  bool big_endian = false;
};

/// Reads the layout of torch 1.6 and later (an uncompressed ZIP archive of data.pkl and one member per
/// storage) or the earlier one (five pickles, then the storages). Checks that every storage exists with the
/// size that the pickle gives. Throws Error(bad_input), or Error(limit) as Pickle does.
[[nodiscard]] TorchLayout read_torch_layout(const FileBytes& file);

/// Opens a torch.save file (pytorch_model.bin, .pt, .pth) without executing anything: a dictionary of names
/// to tensors, or one that contains exactly one such dictionary under "state_dict", "model_state_dict" or
/// "model". Other values add the warning "ignored_value". Row-major tensors are views of the file; others are
/// copied on request.
[[nodiscard]] std::unique_ptr<Checkpoint> open_torch_file(FileBytes file, Warnings& warnings);

}  // namespace attnctl
