#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/files/mapped_file.hpp"
#include "checkpoint/checkpoint.hpp"

namespace attnctl {

/// A tensor of a safetensors header. Its bytes are [begin, end), counted from the end of the header.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct SafetensorsLayout {
  std::vector<SafetensorsEntry> entries;  // sorted by unique names
  std::size_t data_begin = 0;             // offset of the first tensor in the file
};

/// Reads the header and checks that the tensors fill the rest of the file without gaps or overlaps, each with
/// the size of its shape. Throws Error(bad_input).
[[nodiscard]] SafetensorsLayout read_safetensors_layout(const FileBytes& file);

/// Opens a safetensors file (https://github.com/huggingface/safetensors, version 0.3 and later): the length
/// of the header in 8 little-endian bytes, the header (a JSON object), the tensors.
[[nodiscard]] std::unique_ptr<Checkpoint> open_safetensors(FileBytes file);

/// Opens an index of shards {"metadata": {"total_size"}, "weight_map": {tensor: file}} with all its shards.
/// They are in or below the directory of the index, and their names end in `extension`. Throws
/// Error(bad_input) if one is missing.
[[nodiscard]] std::unique_ptr<Checkpoint> open_shard_index(FileBytes file,
                                                           const std::filesystem::path& directory,
                                                           std::string_view extension, Warnings& warnings);

}  // namespace attnctl
