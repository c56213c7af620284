#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files/mapped_file.hpp"
#include "checkpoint/checkpoint.hpp"
#include "formats/npy.hpp"

namespace attnctl {

/// Returns the elements in row-major, little-endian order.
[[nodiscard]] std::vector<std::byte> to_plain(const NpyHeader& header, std::span<const std::byte> data);

/// Opens a file of one array. The tensor is called `name`.
[[nodiscard]] std::unique_ptr<Checkpoint> open_npy(FileBytes file, std::string name);

/// Opens an archive of arrays. The tensors are called like the members without ".npy". Other members are
/// counted in the warning "ignored_member".
[[nodiscard]] std::unique_ptr<Checkpoint> open_npz(FileBytes file, Warnings& warnings);

}  // namespace attnctl
