#pragma once

#include "base/pool.hpp"
#include "report/number_format.hpp"

namespace attnctl {

/// What the writers of text formats have in common.
struct WriteOptions {
  NumberFormat number;
  Pool* pool = nullptr;  // formats in parallel where given; the bytes are the same
};

}  // namespace attnctl
