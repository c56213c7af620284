#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/mapped_file.hpp"
#include "checkpoint/checkpoint.hpp"

// The readers of weights files. Each throws Error(bad_input) for invalid content.
namespace attnctl {

/// Throws Error(bad_input): "FILE: ...". `file` is escaped.
template <typename... Args>
[[noreturn]] void refuse(std::string_view file, fmt::format_string<Args...> format, Args&&... args) {
  fail(Status::bad_input, "{}: {}", file, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws Error(bad_input): "FILE: tensor "NAME": ...".
template <typename... Args>
[[noreturn]] void refuse_tensor(std::string_view file, std::string_view name,
                                fmt::format_string<Args...> format, Args&&... args) {
  refuse(file, "tensor {}: {}", in_quotes(name), fmt::format(format, std::forward<Args>(args)...));
}

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

/// The tensors of one file.
class FileCheckpoint final : public Checkpoint {
 public:
  /// Checks a tensor and returns what to lend: bytes of the file, or those of `copy` after filling it.
  using Load = std::function<std::span<const std::byte>(std::vector<std::byte>& copy)>;

  explicit FileCheckpoint(FileBytes file) : file_(std::move(file)) {}

  /// Adds a tensor that is stored in `bytes` of the file, in the order of the names. `copied` is
  /// copied_bytes(). Without `load` these bytes are the tensor.
  void add(TensorInfo info, std::span<const std::byte> bytes, std::uint64_t copied = 0, Load load = {}) {
    infos_.push_back(std::move(info));
    tensors_.push_back({bytes, {}, {}, copied, std::move(load)});
  }
  /// Sets the configuration and the tokenizer inside the file; null: none.
  void set_inside(std::shared_ptr<const nlohmann::ordered_json> config,
                  std::shared_ptr<const TokenizerSection> tokenizer) {
    config_ = std::move(config);
    tokenizer_ = std::move(tokenizer);
  }

  [[nodiscard]] const FileBytes& file() const { return file_; }
  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return infos_; }
  [[nodiscard]] TensorView tensor(std::size_t index) override {
    const TensorInfo& info = infos_.at(index);
    Stored& stored = tensors_[index];
    if (!stored.lent) stored.lent = stored.load ? stored.load(stored.copy) : stored.bytes;
    return {info.dtype, info.shape, *stored.lent};
  }
  void release(std::size_t index) override {
    file_.forget(tensors_.at(index).bytes);
    tensors_[index].lent.reset();
    std::vector<std::byte>().swap(tensors_[index].copy);
  }
  void forget(std::size_t index, std::span<const std::byte> part) override {
    if (tensors_.at(index).copy.empty()) file_.forget(part);
  }
  [[nodiscard]] std::uint64_t copied_bytes(std::size_t index) const override {
    return tensors_.at(index).copied;
  }
  [[nodiscard]] const nlohmann::ordered_json* config() const override { return config_.get(); }
  [[nodiscard]] std::shared_ptr<const TokenizerSection> tokenizer() const override { return tokenizer_; }

 private:
  struct Stored {
    std::span<const std::byte> bytes;                // in the file
    std::optional<std::span<const std::byte>> lent;  // while the tensor is lent
    std::vector<std::byte> copy;
    std::uint64_t copied = 0;
    Load load;
  };

  FileBytes file_;
  std::vector<TensorInfo> infos_;
  std::vector<Stored> tensors_;
  std::shared_ptr<const nlohmann::ordered_json> config_;
  std::shared_ptr<const TokenizerSection> tokenizer_;
};

/// Sorts elements by their names. Returns the first one whose name occurs twice, or null.
template <typename Element, typename Name>
[[nodiscard]] const Element* sort_by_name(std::vector<Element>& elements, Name name) {
  std::ranges::sort(elements, {}, name);
  const auto twice = std::ranges::adjacent_find(elements, {}, name);
  return twice == elements.end() ? nullptr : &*twice;
}

}  // namespace attnctl
