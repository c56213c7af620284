#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"

// Functions that read weights files, and helpers that several of them share.
namespace attnctl::checkpoint {

/// Throws Error(bad_input) with the message "FILE: tensor "NAME": ...". `file` must be escaped already.
template <typename... Args>
[[noreturn]] void refuse_tensor(std::string_view file, std::string_view name,
                                fmt::format_string<Args...> format, Args&&... args) {
  refuse(file, "tensor {}: {}", in_quotes(name), fmt::format(format, std::forward<Args>(args)...));
}

/// The layout of a tensor's elements in a buffer. The element with the indices i[0], i[1], ... is at the
/// position offset + the sum of i[d] * strides[d] over all dimensions d, counted in elements.
struct Strided {
  Shape shape;
  Shape strides;                 // in elements
  std::size_t offset = 0;        // in elements
  std::size_t element_size = 1;  // in bytes
};

/// Throws Error(bad_input) if the shape and the strides have different lengths, if the tensor's size in bytes
/// does not fit 64 bits, or if an element is outside of the `available` bytes of the buffer. `where` names
/// the file and the tensor in the message. byte_size(), is_row_major() and to_row_major() require a tensor
/// that passes this check.
void check_strided(std::string_view where, const Strided& tensor, std::size_t available);

[[nodiscard]] std::size_t byte_size(const Strided& tensor);  // of all elements together

/// Returns true if the elements are contiguous and in row-major order, or if there are no elements.
[[nodiscard]] bool is_row_major(const Strided& tensor);

/// Returns a copy of the elements in row-major order. `bytes` is the buffer. If `swap` is true, reverses the
/// bytes of each element.
[[nodiscard]] std::vector<std::byte> to_row_major(const Strided& tensor, std::span<const std::byte> bytes,
                                                  bool swap);

/// Maps a weights file of any format and adds its tensors in any order. The arguments and the errors are
/// those of open_checkpoint().
void read_weights(const std::filesystem::path& path, Status absent, Checkpoint& checkpoint,
                  Warnings& warnings);

// The functions below that have a parameter `checkpoint` add the tensors of a weights file of one format to
// it. They throw Error(bad_input) if the content of the file is invalid.

/// Reads a safetensors file (https://github.com/huggingface/safetensors, version 0.3 and later). The file
/// contains the length of the header in 8 little-endian bytes, the header (a JSON object) and the tensors.
/// The tensors must fill the rest of the file without gaps or overlaps.
void read_safetensors(const MappedFile& file, Checkpoint& checkpoint, Warnings& warnings);

/// Reads JSON weights {"config": {...}, name: nested arrays of numbers, ...}. Values are float32; numbers
/// outside the range of float32 are errors. This function checks everything but stores no values; tensor()
/// reads the values.
void read_json_weights(const MappedFile& file, Checkpoint& checkpoint, Warnings& warnings);

/// Reads an NPY file, which contains one array. The tensor's name is the file's name without the extension.
void read_npy(const MappedFile& file, Checkpoint& checkpoint, Warnings& warnings);

/// Reads an NPZ archive of arrays. A tensor's name is the name of its archive member without ".npy". Members
/// with other extensions are ignored, with the warning "ignored_member".
void read_npz(const MappedFile& file, Checkpoint& checkpoint, Warnings& warnings);

/// Reads a torch.save file (pytorch_model.bin, .pt, .pth) without executing any code. The file contains a
/// dictionary from names to tensors, or a dictionary that contains exactly one dictionary of tensors under
/// "state_dict", "model_state_dict" or "model". Other values in the dictionary of tensors are ignored, with
/// the warning "ignored_value". Row-major little-endian tensors are views of the file. tensor() copies other
/// tensors. Throws Error(limit) like Pickle and formats::read_zip_directory().
void read_torch_file(const MappedFile& file, Checkpoint& checkpoint, Warnings& warnings);

/// Reads a little-endian GGUF file of version 2 or 3
/// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). The tensors have the names and the layout of
/// a Hugging Face checkpoint; unknown tensors keep their names. Checkpoint::config is made from the metadata.
/// tensor() decodes quantized tensors to F32 and keeps the result until release().
void read_gguf(const MappedFile& file, Checkpoint& checkpoint, Warnings& warnings);

/// Reads the tokenizer of a GGUF file. The model's architecture need not be supported. Returns null if the
/// file has no tokenizer. Throws Error(bad_input).
[[nodiscard]] std::shared_ptr<const formats::TokenizerSection> read_gguf_tokenizer(const MappedFile& file);

/// Reads the shards that an index {"metadata": {"total_size"}, "weight_map": {tensor: file}} lists. They must
/// be in or below the directory of the index, and have the extension .bin if the index is a .bin.index.json,
/// otherwise .safetensors. Throws Error(bad_input) also if a shard is missing.
void read_shard_index(const MappedFile& file, Checkpoint& checkpoint, Warnings& warnings);

/// Combines tensors with the tensors that hold their scales, which are removed: NAME.weight in FP8 with
/// NAME.weight_scale_inv (DeepSeek: a scale for each 128 x 128 block) or NAME.weight_scale (vLLM: one scale,
/// or one for each row), and NAME_blocks with NAME_scales (MXFP4, as in gpt-oss: the tensor NAME, [..., in,
/// out]). The combined tensors are float32. The tensors must be sorted. Throws Error(bad_input) if the shapes
/// or types of a tensor and its scales do not fit.
void combine_scales(Checkpoint& checkpoint);

/// Sorts elements by name. Returns the first element that has the same name as the next one, or null if all
/// names are different.
template <typename Element, typename Name>
[[nodiscard]] const Element* sort_by_name(std::vector<Element>& elements, Name name) {
  std::ranges::sort(elements, {}, name);
  const auto twice = std::ranges::adjacent_find(elements, {}, name);
  return twice == elements.end() ? nullptr : &*twice;
}

}  // namespace attnctl::checkpoint
