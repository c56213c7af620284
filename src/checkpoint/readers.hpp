#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/mapped_file.hpp"
#include "checkpoint/checkpoint.hpp"

// The readers of weights files. Each throws Error(bad_input) for invalid content.
namespace attnctl {

/// Opens a safetensors file (https://github.com/huggingface/safetensors, version 0.3 and later): the length
/// of the header in 8 little-endian bytes, the header (a JSON object), the tensors. The tensors must fill the
/// rest of the file without gaps or overlaps.
[[nodiscard]] std::unique_ptr<Checkpoint> open_safetensors(FileBytes file);

/// Opens an index of shards {"metadata": {"total_size"}, "weight_map": {tensor: file}} with all its shards.
/// They are in or below the directory of the index, and their names end in `extension`. Throws
/// Error(bad_input) if one is missing.
[[nodiscard]] std::unique_ptr<Checkpoint> open_shard_index(FileBytes file,
                                                           const std::filesystem::path& directory,
                                                           std::string_view extension, Warnings& warnings);

/// Opens JSON weights {"config": {...}, name: nested arrays of numbers, ...}. Values are float32; numbers
/// beyond its range are errors. Opening checks everything but keeps no number; tensor() reads them.
[[nodiscard]] std::unique_ptr<Checkpoint> open_json_weights(FileBytes file);

/// Opens an NPY file of one array. The tensor is called `name`.
[[nodiscard]] std::unique_ptr<Checkpoint> open_npy(FileBytes file, std::string name);

/// Opens an NPZ archive of arrays. The tensors are called like the members without ".npy". Other members are
/// counted in the warning "ignored_member".
[[nodiscard]] std::unique_ptr<Checkpoint> open_npz(FileBytes file, Warnings& warnings);

/// Opens a torch.save file (pytorch_model.bin, .pt, .pth) without executing anything: a dictionary of names
/// to tensors, or one that contains exactly one such dictionary under "state_dict", "model_state_dict" or
/// "model". Other values add the warning "ignored_value". Row-major tensors are views of the file; others are
/// copied on request. Throws Error(limit) as Pickle does.
[[nodiscard]] std::unique_ptr<Checkpoint> open_torch_file(FileBytes file, Warnings& warnings);

/// Opens little-endian GGUF of versions 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)
/// as a Hugging Face checkpoint: with its tensor names and layout, and the metadata as its configuration.
/// Quantized tensors are decoded to F32 on request and kept until release().
[[nodiscard]] std::unique_ptr<Checkpoint> open_gguf(FileBytes file);

/// Reads the tokenizer of a GGUF file with any architecture; null if it has none.
[[nodiscard]] std::shared_ptr<const TokenizerSection> read_gguf_tokenizer(const FileBytes& file);

/// Sorts elements by their names. Returns the first one whose name occurs twice, or null.
template <typename Element, typename Name>
[[nodiscard]] const Element* sort_by_name(std::vector<Element>& elements, Name name) {
  std::ranges::sort(elements, {}, name);
  const auto twice = std::ranges::adjacent_find(elements, {}, name);
  return twice == elements.end() ? nullptr : &*twice;
}

}  // namespace attnctl
