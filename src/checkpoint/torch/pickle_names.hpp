#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/dtype.hpp"

namespace attnctl {

/// What a name in a pickle stands for.
enum class PickleRole : std::uint8_t { storage, dtype, rebuild, parameter, ordered_dict, size, device };

/// A name that torch.save writes. Everything that is not here is refused.
struct PickleName {
  std::string_view name;  // with its module
  PickleRole role = PickleRole::device;
  std::optional<DType> dtype = std::nullopt;  // of a storage or dtype; a storage without one is of bytes
  std::size_t fewest = 0;                     // arguments of a call
  std::size_t most = 0;
  bool typed = false;  // a rebuild whose seventh argument is the dtype
};

[[nodiscard]] std::span<const PickleName> pickle_names();

/// "INST", "NEWOBJ", ...; "" for a byte that is no opcode.
[[nodiscard]] std::string_view pickle_opcode_name(unsigned char op);

}  // namespace attnctl
