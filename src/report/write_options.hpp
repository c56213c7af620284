#pragma once

#include <atomic>
#include <cstdint>

#include "base/pool.hpp"
#include "report/number_format.hpp"

namespace attnctl {

/// What the writers of text formats have in common.
struct WriteOptions {
  NumberFormat number;
  Pool* pool = nullptr;  // formats in parallel where given; the bytes are the same
  std::atomic<std::uint64_t>* non_finite =
      nullptr;  // CSV: adds the values that are left empty because they are NaN or infinite
};

}  // namespace attnctl
