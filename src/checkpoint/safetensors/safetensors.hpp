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

/// A tensor of a safetensors header; its bytes are [begin, end) of what follows the header.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct SafetensorsLayout {
  std::vector<SafetensorsEntry> entries;  // ordered by name, which are all different
  std::size_t data_begin = 0;             // offset of the tensors' bytes in the file
};

/// Reads the header and checks that the tensors fill the rest of the file without holes or overlaps, each
/// with the bytes that its shape needs. Throws Error(bad_input).
[[nodiscard]] SafetensorsLayout read_safetensors_layout(const FileBytes& file);

/// safetensors (https://github.com/huggingface/safetensors, format of version 0.3 and later): 8 bytes
/// little-endian length of the header, the header (a JSON object), the tensors.
[[nodiscard]] std::unique_ptr<Checkpoint> open_safetensors(FileBytes file);

/// An index of shards: {"metadata": {"total_size"}, "weight_map": {tensor: file}}. Shards lie beside or below
/// the index and have names that end in `extension`; one that is missing is bad_input.
[[nodiscard]] std::unique_ptr<Checkpoint> open_shard_index(FileBytes file,
                                                           const std::filesystem::path& directory,
                                                           std::string_view extension, Warnings& warnings);

}  // namespace attnctl
