#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/warnings.hpp"
#include "formats/tokenizer_section.hpp"

namespace attnctl::checkpoint {

/// A view of a tensor's bytes, which the checkpoint owns. The bytes are row-major, little-endian and
/// contiguous, with any alignment. The view is valid until release() is called for the tensor or the
/// checkpoint is destroyed.
struct TensorView {
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;
};

struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::string_view file = {};  // name of the tensor's file, escaped for messages; owned by the checkpoint
};

/// The named tensors of a weights file of any supported format. Opening the file checks the sizes of all
/// tensors.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  [[nodiscard]] virtual std::span<const TensorInfo> tensors() const = 0;  // sorted by name

  /// Returns the data of tensors()[index]. If the bytes in the file are not those of a TensorView (for
  /// example compressed, quantized, strided, big-endian or JSON text), the first call makes a converted copy
  /// and keeps the copy until release(). Must not be called from several threads at once. Throws
  /// Error(bad_input) if the data are damaged, for example if their checksum (CRC) is wrong.
  [[nodiscard]] virtual TensorView tensor(std::size_t index) = 0;

  /// Frees the memory of tensors()[index] and makes its views invalid. tensor() may be called again.
  virtual void release(std::size_t /*index*/) {}

  /// Frees the memory of `part`, a part of the bytes of tensor(index), if the bytes are in a mapped file. The
  /// bytes stay valid: the operating system reads them from the file again when they are used.
  virtual void forget(std::size_t /*index*/, std::span<const std::byte> /*part*/) {}

  /// Returns the memory in bytes that tensor(index) needs for a converted copy and for the data that it is
  /// converted from. Returns 0 if tensor(index) is a view of the mapped file.
  [[nodiscard]] virtual std::uint64_t copied_bytes(std::size_t /*index*/) const { return 0; }

  /// Returns the configuration inside the weights file ("config" in JSON weights, metadata in GGUF); null if
  /// there is none.
  [[nodiscard]] virtual const nlohmann::ordered_json* config() const { return nullptr; }

  /// Returns the tokenizer inside the weights file (only GGUF files have one); null if there is none.
  [[nodiscard]] virtual std::shared_ptr<const formats::TokenizerSection> tokenizer() const { return nullptr; }

  /// Returns the index in tensors() of the tensor with this name; npos if there is none.
  [[nodiscard]] std::size_t find(std::string_view name) const;
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);  // NOLINT(readability-identifier-naming)
};

/// Opens a weights file. The name's extension selects the format: .safetensors, .npz, .npy, .gguf, .json, or
/// .bin, .pt and .pth (torch.save); .safetensors.index.json and .bin.index.json list shards, which are opened
/// too. The tensor of an .npy file has the file's name without the extension. The checksum (CRC) of an
/// archive member with tensor values is checked when they are first used. Throws an Error with the status
/// `absent` if the file does not exist or is not a regular file, Error(environment) if the file cannot be
/// opened, and Error(bad_input) if its extension or content is invalid or not supported. Throws Error(limit)
/// if an archive unpacks to far more than its size, if the pickle in a torch.save file needs too much memory,
/// or if too many files are mapped.
[[nodiscard]] std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& path,
                                                          Warnings& warnings,
                                                          Status absent = Status::environment);

/// Reads only the tokenizer of a weights file. Returns null if the extension is not .gguf, without opening
/// the file, or if the file has no tokenizer. Throws like open_checkpoint().
[[nodiscard]] std::shared_ptr<const formats::TokenizerSection> read_tokenizer_section(
    const std::filesystem::path& path);

}  // namespace attnctl::checkpoint
