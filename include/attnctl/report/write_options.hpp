#pragma once

#include "attnctl/base/pool.hpp"
#include "attnctl/report/number_format.hpp"

namespace attnctl {

/// What the writers of text formats have in common.
struct WriteOptions {
  NumberFormat number;
  Pool* pool = nullptr;  // formats in parallel where given; the bytes are the same
};

}  // namespace attnctl
