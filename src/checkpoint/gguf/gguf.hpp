#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/files/mapped_file.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/gguf/ggml_types.hpp"
#include "checkpoint/gguf/gguf_metadata.hpp"

namespace attnctl {

struct GgufTensor {
  std::string_view name;  // in the file
  const GgmlType* type = nullptr;
  Shape shape;  // outermost first: the file has it the other way round
  std::span<const std::byte> bytes;
};

struct GgufLayout {
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // ordered by name, which are all different
};

/// Reads and checks everything in front of the tensors, and that these lie in the file, aligned, whole with
/// their padding and apart from each other. Views lend the file's bytes. Throws Error(bad_input).
[[nodiscard]] GgufLayout read_gguf_layout(const FileBytes& file);

/// GGUF of versions 2 and 3, little-endian (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): the
/// weights under the names of a Hugging Face checkpoint and in its layout, the metadata as its configuration.
/// Quantised tensors are given as F32, decoded when they are asked for and kept until release().
[[nodiscard]] std::unique_ptr<Checkpoint> open_gguf(FileBytes file);

/// The tokenizer alone, whatever the architecture.
[[nodiscard]] std::shared_ptr<const TokenizerSection> read_gguf_tokenizer(const FileBytes& file);

}  // namespace attnctl
