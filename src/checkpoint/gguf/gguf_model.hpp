#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "checkpoint/gguf/gguf.hpp"

namespace attnctl {

/// How a GGUF file orders the numbers of a matrix that a Hugging Face checkpoint orders otherwise.
enum class GgufOrder {
  as_stored,
  rotary_pairs,  // rows of a head by pairs (0, k/2, 1, k/2 + 1, ...), there in two halves
  transposed     // [out, in], there [in, out]
};

/// A tensor under its other name.
struct GgufMapped {
  std::string name;
  std::size_t tensor = 0;  // of the layout
  GgufOrder order = GgufOrder::as_stored;
  std::size_t heads = 0;  // whose rows are in pairs
  float added = 0;        // taken off again; such tensors are given in float32
};

/// What a GGUF file is as a Hugging Face checkpoint. Tensors that are not known keep their names; one that is
/// part of the configuration is left out.
struct GgufModel {  // NOLINT(bugprone-exception-escape): moving JSON throws nothing
  nlohmann::ordered_json config;
  std::vector<GgufMapped> tensors;  // ordered by name, which are all different
};

/// Throws Error(bad_input) where the architecture is not known, a key is missing, wrong or of a variant that
/// is not supported, or a tensor has not the shape that its order needs.
[[nodiscard]] GgufModel map_gguf(const std::string& file, const GgufLayout& layout);

}  // namespace attnctl
