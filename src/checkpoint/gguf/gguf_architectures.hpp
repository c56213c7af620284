#pragma once

#include <span>
#include <string_view>

#include "checkpoint/gguf/gguf_model.hpp"

namespace attnctl {

/// A tensor's name, less "blk.N." and ".weight" or ".bias", and what it is called in a Hugging Face
/// checkpoint.
struct GgufName {
  std::string_view gguf;
  std::string_view name;  // whole; `{}` is the layer
  GgufOrder order = GgufOrder::as_stored;
  std::string_view heads = {};  // key of their number, where rows are in pairs
  float added = 0;              // to every number, by those who write such files
};

/// A size or number of the metadata, less the architecture's name, and the key of config.json that it gives.
struct GgufKey {
  enum class Kind { size, number };
  std::string_view gguf;
  std::string_view key;
  Kind kind = Kind::size;
  bool needed = true;
};

/// A flag of config.json that says what the tensors show: whether the first layer has this one.
struct GgufFlag {
  std::string_view tensor;
  std::string_view key;
};

/// An architecture of GGUF as data.
struct GgufArchitecture {
  std::string_view name;  // of general.architecture and model_type
  std::span<const GgufName> names;
  std::span<const GgufKey> keys;
  std::span<const GgufFlag> flags;
  bool rotary = false;
  void (*complete)(nlohmann::ordered_json& config) = nullptr;  // what no key says
};

[[nodiscard]] std::span<const GgufArchitecture> gguf_architectures();

}  // namespace attnctl
