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

/// A tensor that a checkpoint lends: row-major, little-endian, packed; valid as long as the checkpoint
/// or until release(). Alignment is not promised.
struct TensorView {
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;
};

/// What is known of a tensor before its bytes are read.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::string_view file;  // the file that holds it, escaped for errors; valid as long as the checkpoint
};

/// Names to typed views, whatever the file format. Everything about sizes was validated at opening.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  /// All tensors, ordered by name.
  [[nodiscard]] virtual std::span<const TensorInfo> tensors() const = 0;

  /// The bytes of tensors()[index]. Deflated, quantised, strided or big-endian data is converted at the first
  /// call and kept. Not safe from several threads at once. Throws Error(bad_input) where the data is damaged
  /// (CRC).
  [[nodiscard]] virtual TensorView tensor(std::size_t index) = 0;

  /// Ends the loan of tensors()[index]: its bytes are not valid any more and the memory behind them is given
  /// back. tensor() may be called again. For weights that were converted.
  virtual void release(std::size_t /*index*/) {}

  /// Gives back the memory behind a part of what tensor(index) lent, where it lies in a mapped file. The
  /// bytes stay valid and are read from the file again where they are needed again.
  virtual void forget(std::size_t /*index*/, std::span<const std::byte> /*part*/) {}

  /// Bytes that tensor(index) takes in memory beside the pages of a mapped file: its copy, and what that is
  /// made of. 0: it is lent as it lies in the file.
  [[nodiscard]] virtual std::uint64_t copied_bytes(std::size_t /*index*/) const { return 0; }

  /// A configuration inside the weights file (JSON weights, "config"; GGUF, its metadata); null where there
  /// is none.
  [[nodiscard]] virtual const nlohmann::ordered_json* config() const { return nullptr; }

  /// A tokenizer inside the weights file (GGUF); null where there is none.
  [[nodiscard]] virtual std::shared_ptr<const TokenizerSection> tokenizer() const { return nullptr; }

  /// Index of a name in tensors(); npos where there is none.
  [[nodiscard]] std::size_t find(std::string_view name) const;
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);
};

/// Opens one weights file: .safetensors, .safetensors.index.json (with its shards), .npz, .npy (one tensor
/// named by the file's stem), .gguf, .json, .bin, .pt and .pth (of torch.save), .bin.index.json. Throws
/// Error: `absent` where it does not exist or is no regular file, environment (4) where it cannot be opened,
/// bad_input (3) for anything wrong in it, limit (5) for an
/// archive that unpacks to far more than it is. A member of an archive is checked against its CRC when its
/// tensor is first asked for.
[[nodiscard]] std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& path,
                                                          Warnings& warnings,
                                                          Status absent = Status::environment);

/// The tokenizer inside a weights file, of which nothing else is looked at; null where a file of its
/// extension holds none. Throws as open_checkpoint.
[[nodiscard]] std::shared_ptr<const TokenizerSection> read_tokenizer_section(
    const std::filesystem::path& path);

}  // namespace attnctl
