#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "formats/tokenizer_section.hpp"
#include "linalg/encoded.hpp"

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
  std::size_t place = 0;       // index of the tensor's data in its Checkpoint; set by Checkpoint::add()
  bool text = false;           // strings of NumPy, whose characters are the last axis (formats::NpyHeader)
};

/// The bytes of a tensor whose numbers are not float32, as its file stores them. They are rows of blocks: row
/// by row, without gaps, in the order of TensorInfo::shape. The last extent is the length of a row.
struct EncodedTensor {
  linalg::NumberEncoding encoding = linalg::NumberEncoding::f16;
  std::span<const std::byte> bytes;
  std::size_t head_rows = 0;  // see linalg::EncodedMatrix
  bool transposed = false;    // the file has the transpose of the matrix: the first extent is the row length
};

/// The named tensors of a weights file of any supported format. Opening the file checks the sizes of all
/// tensors.
class Checkpoint {
 public:
  /// Checks a tensor and returns its data. If the data must be converted, the function stores the result in
  /// `copy` and returns the bytes of `copy`; otherwise it returns bytes of the file.
  using Load = std::function<std::span<const std::byte>(std::vector<std::byte>& copy)>;

  virtual ~Checkpoint() = default;

  /// Maps a file, or memory in place of a file. The arguments are those of MappedFile.
  template <typename... Args>
  const MappedFile& map(const Args&... args) {
    return files_.emplace_back(args...);
  }
  /// Adds a tensor, which is stored in `bytes` of `file`, a result of map(). Sets info.file, unless it is set
  /// already. `copied` is the value that copied_bytes() returns. If `load` is empty, `bytes` is the tensor's
  /// data.
  void add(const MappedFile& file, TensorInfo info, std::span<const std::byte> bytes,
           std::uint64_t copied = 0, Load load = {}) {
    if (info.file.empty()) info.file = file.name();
    info.place = stored_.size();
    std::optional<EncodedTensor> encoded;
    if (!load && !bytes.empty() && info.dtype == DType::f16) encoded = {linalg::NumberEncoding::f16, bytes};
    if (!load && !bytes.empty() && info.dtype == DType::bf16) encoded = {linalg::NumberEncoding::bf16, bytes};
    infos_.push_back(std::move(info));
    stored_.push_back({&file, bytes, {}, {}, copied, std::move(load), encoded});
  }
  /// Sets what encoded() returns for the tensor that was added last.
  void set_encoded(const EncodedTensor& encoded) { stored_.back().encoded = encoded; }
  /// Replaces tensors()[index] by one with another type, shape or name, whose data `load` returns from the
  /// stored bytes.
  void replace(std::size_t index, TensorInfo info, std::uint64_t copied, Load load) {
    info.file = infos_.at(index).file;
    info.place = infos_.at(index).place;
    Stored& stored = stored_[info.place];
    infos_[index] = std::move(info);
    stored.copied = copied;
    stored.load = std::move(load);
    stored.encoded.reset();
  }
  /// Removes the tensors with these indices, in ascending order.
  void remove(std::span<const std::size_t> indices) {
    for (std::size_t i = indices.size(); i-- > 0;)
      infos_.erase(infos_.begin() + static_cast<std::ptrdiff_t>(indices[i]));
  }
  /// Returns the bytes of the file in which tensors()[index] is stored.
  [[nodiscard]] std::span<const std::byte> stored_bytes(std::size_t index) const {
    return stored_[infos_.at(index).place].bytes;
  }
  /// Sorts the tensors by name. Must be called after tensors were added in another order.
  void sort() { std::ranges::stable_sort(infos_, {}, &TensorInfo::name); }

  [[nodiscard]] std::span<const TensorInfo> tensors() const { return infos_; }  // sorted by name

  /// Returns the data of tensors()[index]. If the bytes in the file are not those of a TensorView (for
  /// example compressed, quantized, strided, big-endian or JSON text), the first call makes a converted copy
  /// and keeps the copy until release(). Must not be called from several threads at once. Throws
  /// Error(bad_input) if the data are damaged, for example if their checksum (CRC) is wrong.
  [[nodiscard]] virtual TensorView tensor(std::size_t index) {
    const TensorInfo& info = infos_.at(index);
    Stored& stored = stored_[info.place];
    if (!stored.lent) stored.lent = stored.load ? stored.load(stored.copy) : stored.bytes;
    return {info.dtype, info.shape, *stored.lent};
  }
  /// Frees the memory of tensors()[index] and makes its views invalid. tensor() may be called again.
  virtual void release(std::size_t index) {
    Stored& stored = stored_[infos_.at(index).place];
    stored.file->forget(stored.bytes);
    stored.lent.reset();
    std::vector<std::byte>().swap(stored.copy);
  }
  /// Returns the stored bytes of tensors()[index], if they are encoded and need no check or conversion of the
  /// whole tensor: those of GGUF files, and float16 and bfloat16 in files that are mapped as they are. Does
  /// not read them.
  [[nodiscard]] const std::optional<EncodedTensor>& encoded(std::size_t index) const {
    return stored_[infos_.at(index).place].encoded;
  }
  /// Frees the memory of `part`, a part of the stored bytes of tensors()[index]. The bytes stay valid: the
  /// operating system reads them from the file again when they are used.
  void forget_stored(std::size_t index, std::span<const std::byte> part) const {
    stored_[infos_.at(index).place].file->forget(part);
  }
  /// Frees the memory of `part`, a part of the bytes of tensor(index), if the bytes are in a mapped file. The
  /// bytes stay valid: the operating system reads them from the file again when they are used.
  void forget(std::size_t index, std::span<const std::byte> part) const {
    const Stored& stored = stored_[infos_.at(index).place];
    if (stored.copy.empty()) stored.file->forget(part);
  }
  /// Returns the memory in bytes that tensor(index) needs for a converted copy and for the data that it is
  /// converted from. Returns 0 if tensor(index) is a view of the mapped file.
  [[nodiscard]] std::uint64_t copied_bytes(std::size_t index) const {
    return stored_[infos_.at(index).place].copied;
  }

  /// Returns the index in tensors() of the tensor with this name; npos if there is none.
  [[nodiscard]] std::size_t find(std::string_view name) const;
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);  // NOLINT(readability-identifier-naming)

  /// The configuration inside the weights file ("config" in JSON weights, metadata in GGUF); null if there is
  /// none.
  std::shared_ptr<const nlohmann::ordered_json> config;
  /// The tokenizer inside the weights file (only GGUF files have one); null if there is none.
  std::shared_ptr<const formats::TokenizerSection> tokenizer;

 private:
  struct Stored {
    const MappedFile* file = nullptr;
    std::span<const std::byte> bytes;                // where the tensor is stored in the file
    std::optional<std::span<const std::byte>> lent;  // bytes that tensor() returned, until release()
    std::vector<std::byte> copy;
    std::uint64_t copied = 0;
    Load load;
    std::optional<EncodedTensor> encoded;
  };

  std::deque<MappedFile> files_;  // a deque, because references to the files must stay valid
  std::vector<TensorInfo> infos_;
  std::vector<Stored> stored_;  // by TensorInfo::place
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

/// The configuration, weights and directory that the MODEL argument of a command names.
struct ModelSource {  // NOLINT(bugprone-exception-escape): moving JSON throws nothing
  std::string given;  // MODEL, as on the command line
  /// The directory of config.json and the tokenizer files. Empty if MODEL is a weights file and its
  /// configuration comes from --config or from inside the weights file.
  std::filesystem::path directory;
  std::filesystem::path config_path;  // file of the configuration; may be the weights file
  /// The bytes of the configuration file, or the configuration as JSON text if it is inside the weights file.
  /// The hash of these bytes is part of the identity of a study.
  std::string config_text;
  nlohmann::ordered_json config;  // a JSON object
  std::unique_ptr<Checkpoint> weights;
};

/// Opens the files of MODEL. `config` (--config FILE) replaces the model's configuration. MODEL is one of:
/// - an existing directory in Hugging Face layout;
/// - a weights file. The configuration is inside the file, or is config.json next to the file;
/// - a name ("org/name" or "name") in the local Hugging Face cache. The cache directory is HF_HUB_CACHE,
///   otherwise HF_HOME/hub, otherwise XDG_CACHE_HOME/huggingface/hub, otherwise ~/.cache/huggingface/hub.
///   Nothing is downloaded.
///
/// The weights file of a directory is the first of these that exists: model.safetensors,
/// model.safetensors.index.json, model.npz, model.json, the only .safetensors, .npz or .gguf file of the
/// directory (several are an error), pytorch_model.bin, pytorch_model.bin.index.json. Throws
/// Error(environment) if MODEL or `config` cannot be found or a file cannot be opened, Error(bad_input) if
/// another required file is missing or a file is invalid, and Error(limit) like open_checkpoint().
[[nodiscard]] ModelSource open_model_source(const std::string& model,
                                            const std::optional<std::filesystem::path>& config,
                                            Warnings& warnings);

/// Returns whether a directory has an adapter_config.json, the configuration of a PEFT adapter.
[[nodiscard]] bool is_adapter(const std::filesystem::path& directory);
/// Returns the files of an adapter: its configuration and its weights.
[[nodiscard]] std::vector<std::filesystem::path> adapter_files(const std::filesystem::path& directory);
/// Adds a LoRA adapter in the layout of PEFT to the weights: W + scale B A for each matrix that it changes,
/// where scale is alpha / r, or alpha / sqrt(r) with use_rslora; and biases and modules that it replaces.
/// Changed tensors are float32. Throws Error(bad_input) if a file is missing, malformed or of another method
/// (DoRA, IA3, ...), or if a tensor does not fit the model. May add the warning adapter_tensor_unused.
void apply_adapter(const std::filesystem::path& directory, ModelSource& source, Warnings& warnings);

/// Returns the directory of MODEL's files. The directory is MODEL itself, or contains the file MODEL, or is
/// the model's snapshot in the local Hugging Face cache, which the file refs/main of the cache names. Throws
/// Error(environment) if MODEL cannot be found, and Error(bad_input) if refs/main or the snapshot is missing
/// or invalid.
[[nodiscard]] std::filesystem::path model_directory(const std::string& model);

/// Returns the paths of the files of MODEL that outputs must not replace. These are config.json in
/// model_directory(), which need not exist, and the weights file (an empty path if the directory has no
/// suitable one). Unless MODEL is a weights file without shards, also returns every .safetensors, .bin, .pt,
/// .pth, .gguf and .index.json file of the directory, and of its subdirectories if the weights are shards. If
/// MODEL is a name in the cache, also returns its file refs/main. Throws like model_directory().
[[nodiscard]] std::vector<std::filesystem::path> checkpoint_files(const std::string& model);

}  // namespace attnctl::checkpoint
