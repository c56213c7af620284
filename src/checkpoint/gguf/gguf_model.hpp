#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "checkpoint/gguf/gguf.hpp"

namespace attnctl {

/// How the order of a GGUF matrix differs from that in a Hugging Face checkpoint.
enum class GgufOrder {
  as_stored,
  rotary_pairs,  // rows of each head are in pairs (0, k/2, 1, k/2 + 1, ...) instead of two halves
  transposed     // [out, in] instead of [in, out]
};

/// A tensor's GGUF name without "blk.N." and ".weight" or ".bias", and its name in a Hugging Face checkpoint.
struct GgufName {
  std::string_view gguf;
  std::string_view name;  // complete; `{}` is the layer
  GgufOrder order = GgufOrder::as_stored;
  std::string_view heads = {};  // metadata key of the number of heads, for rotary_pairs
  float added = 0;              // added to every value by GGUF writers
};

/// A metadata key without the architecture's name, and its key in config.json.
struct GgufKey {
  enum class Kind { size, number };
  std::string_view gguf;
  std::string_view key;
  Kind kind = Kind::size;
  bool needed = true;
};

/// A flag of config.json that is true if the file has this tensor.
struct GgufFlag {
  std::string_view tensor;
  std::string_view key;
};

/// A GGUF architecture as data.
struct GgufArchitecture {
  std::string_view name;  // general.architecture, and model_type
  std::span<const GgufName> names;
  std::span<const GgufKey> keys;
  std::span<const GgufFlag> flags;
  bool rotary = false;
  void (*complete)(nlohmann::ordered_json& config) = nullptr;  // sets what no key gives
};

[[nodiscard]] std::span<const GgufArchitecture> gguf_architectures();

/// A tensor under its Hugging Face name.
struct GgufMapped {
  std::string name;
  std::size_t tensor = 0;  // index in the layout
  GgufOrder order = GgufOrder::as_stored;
  std::size_t heads = 0;  // number of heads, for rotary_pairs
  float added = 0;        // subtracted from every value, which makes the tensor float32
};

/// A GGUF file as a Hugging Face checkpoint. Unknown tensors keep their names; the tensor of rotary factors
/// becomes part of the configuration.
struct GgufModel {  // NOLINT(bugprone-exception-escape): moving JSON throws nothing
  nlohmann::ordered_json config;
  std::vector<GgufMapped> tensors;  // sorted by unique names
};

/// Throws Error(bad_input) for an unknown architecture, missing, wrong or unsupported keys, and tensors whose
/// shape does not fit their order.
[[nodiscard]] GgufModel map_gguf(const std::string& file, const GgufLayout& layout);

}  // namespace attnctl
