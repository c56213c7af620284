#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/files/mapped_file.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/gguf/ggml_types.hpp"
#include "checkpoint/gguf/gguf_metadata.hpp"
#include "formats/tokenizer_section.hpp"

namespace attnctl {

struct GgufTensor {
  std::string_view name;  // a view of the file
  const GgmlType* type = nullptr;
  Shape shape;  // outermost first; the file stores it innermost first
  std::span<const std::byte> bytes;
};

struct GgufLayout {
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // sorted by unique names
};

/// Reads the metadata and the descriptions of tensors, and checks that the tensors are aligned, complete with
/// padding, and do not overlap. The result has views of the file. Throws Error(bad_input).
[[nodiscard]] GgufLayout read_gguf_layout(const FileBytes& file);

/// Opens little-endian GGUF of versions 2 and 3 (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)
/// as a Hugging Face checkpoint: with its tensor names and layout, and the metadata as its configuration.
/// Quantized tensors are decoded to F32 on request and kept until release().
[[nodiscard]] std::unique_ptr<Checkpoint> open_gguf(FileBytes file);

/// Reads the tokenizer of a GGUF file; null if it has none. Throws Error(bad_input) for lists of a wrong type
/// or length, byte tokens that are not a byte (such as <0x-1>), and ids without a token. `file` is escaped.
[[nodiscard]] std::shared_ptr<const TokenizerSection> read_gguf_tokenizer(const std::string& file,
                                                                          const GgufMetadata& metadata);
/// Reads the tokenizer of a file with any architecture.
[[nodiscard]] std::shared_ptr<const TokenizerSection> read_gguf_tokenizer(const FileBytes& file);

}  // namespace attnctl
