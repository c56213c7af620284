#pragma once

#include <atomic>
#include <cstdint>

#include "base/pool.hpp"
#include "report/number_format.hpp"

namespace attnctl {

/// Options that the writers of text formats share.
struct WriteOptions {
  NumberFormat number;
  Pool* pool = nullptr;  // formats in parallel if set; the output does not depend on it
  std::atomic<std::uint64_t>* non_finite =
      nullptr;  // CSV: adds the number of cells left empty because they are NaN or infinite
};

}  // namespace attnctl
