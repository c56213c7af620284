#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "model/binding/tensor_names.hpp"
#include "model/config/config_reader.hpp"

namespace attnctl {

struct Extents {
  std::size_t in = 0;
  std::size_t out = 0;
};

/// Sizes of the bare mechanism, read off its tensors. All throw Error(bad_input) that names the tensor or the
/// key.
class ShapeReader {
 public:
  ShapeReader(const ConfigReader& config, const TensorNames& names) : config_(config), names_(names) {}

  /// Extents of a projection, of its two factors together; `heads` is the outer extent of a tensor of rank 3.
  [[nodiscard]] Extents extents(const LocatedWeight& weight, std::size_t heads, bool output) const;
  [[nodiscard]] Extents extents(const LocatedTensor& tensor, std::size_t heads, bool output) const;

  /// Columns of a first factor [in, rank] or [heads, in, rank].
  [[nodiscard]] std::size_t rank(const LocatedTensor& first) const;

  /// Of `outputs` rows of a tensor those of one projection, a third where [q; k; v] are packed (of a
  /// mechanism with as many key/value heads as heads).
  [[nodiscard]] std::size_t own_outputs(const LocatedTensor& tensor, std::size_t outputs) const;

  /// width / parts, where `key` says how many parts.
  [[nodiscard]] std::size_t divided(const LocatedTensor& tensor, std::size_t width, std::size_t parts,
                                    std::string_view key) const;

  /// A size that the configuration may repeat; it must then say the same.
  [[nodiscard]] std::size_t agreed(const std::string& key, std::size_t found,
                                   const LocatedTensor& tensor) const;

 private:
  [[noreturn]] void refuse(const LocatedTensor& tensor, const std::string& need) const;
  [[nodiscard]] std::size_t multiplied(const LocatedTensor& tensor, std::size_t a, std::size_t b) const;

  const ConfigReader& config_;
  const TensorNames& names_;
};

}  // namespace attnctl
