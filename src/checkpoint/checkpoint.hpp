#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/warnings.hpp"
#include "formats/tokenizer_section.hpp"

namespace attnctl {

/// A tensor lent by a checkpoint: row-major, little-endian, contiguous, with any alignment. It is valid until
/// release(), or as long as the checkpoint.
struct TensorView {
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;
};

/// The description of a tensor, known before its bytes are read.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::string_view file;  // the file that holds it, escaped for messages; valid as long as the checkpoint
};

/// Typed views of named tensors, for all file formats. Sizes are validated when the file is opened.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  /// Returns all tensors, sorted by name.
  [[nodiscard]] virtual std::span<const TensorInfo> tensors() const = 0;

  /// Returns the bytes of tensors()[index]. Compressed, quantized, strided or big-endian data is converted at
  /// the first call and kept. Must not be called from several threads at once. Throws Error(bad_input) if a
  /// CRC does not match.
  [[nodiscard]] virtual TensorView tensor(std::size_t index) = 0;

  /// Ends the loan of tensors()[index] and frees its memory. tensor() may be called again.
  virtual void release(std::size_t /*index*/) {}

  /// Frees the memory of a part of tensor(index) if it is in a mapped file. The bytes stay valid; the system
  /// reads them from the file again when needed.
  virtual void forget(std::size_t /*index*/, std::span<const std::byte> /*part*/) {}

  /// Returns the bytes that tensor(index) needs in addition to pages of a mapped file: its copy, and the data
  /// it is made from. 0 for a view of the file.
  [[nodiscard]] virtual std::uint64_t copied_bytes(std::size_t /*index*/) const { return 0; }

  /// Returns the configuration inside the weights file ("config" in JSON weights, metadata in GGUF), or null.
  [[nodiscard]] virtual const nlohmann::ordered_json* config() const { return nullptr; }

  /// Returns the tokenizer inside the weights file (GGUF), or null.
  [[nodiscard]] virtual std::shared_ptr<const TokenizerSection> tokenizer() const { return nullptr; }

  /// Returns the index of a name in tensors(), or npos.
  [[nodiscard]] std::size_t find(std::string_view name) const;
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);
};

/// Opens one weights file: .safetensors, .safetensors.index.json (with its shards), .npz, .npy (one tensor
/// with the file's stem as its name), .gguf, .json, .bin, .pt and .pth (of torch.save), .bin.index.json. CRCs
/// of archive members are checked when a tensor is first used. Throws Error: `absent` if it does not exist or
/// is not a regular file, environment (4) if it cannot be opened, bad_input (3) for invalid content, limit
/// (5) for an archive that unpacks to far more than its size.
[[nodiscard]] std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& path,
                                                          Warnings& warnings,
                                                          Status absent = Status::environment);

/// Reads only the tokenizer of a weights file; null if its format has none. Throws as open_checkpoint.
[[nodiscard]] std::shared_ptr<const TokenizerSection> read_tokenizer_section(
    const std::filesystem::path& path);

}  // namespace attnctl
