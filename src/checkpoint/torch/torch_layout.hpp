#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/mapped_file.hpp"
#include "checkpoint/torch/pickle.hpp"
#include "formats/zip.hpp"

namespace attnctl {

/// Where a file of torch.save has its objects and the bytes of its storages.
struct TorchLayout {
  std::unique_ptr<Pickle> pickle;
  std::vector<std::span<const std::byte>> storages;  // of pickle->storages()
  std::vector<std::size_t> members;                  // of pickle->storages(): index in `archive`
  std::vector<StoredMember> archive;                 // empty for the layout before torch 1.6
  bool big_endian = false;
};

/// The layout of torch 1.6 and later, a ZIP archive of data.pkl and a member for each storage, all stored; or
/// the one before, five pickles followed by the storages. Every storage is checked to be there and as long as
/// the pickle says. Throws Error: bad_input, limit as Pickle does.
[[nodiscard]] TorchLayout read_torch_layout(const FileBytes& file);

}  // namespace attnctl
