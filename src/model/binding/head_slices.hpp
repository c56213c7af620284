#pragma once

#include "model/config/config.hpp"
#include "model/config/shape_reader.hpp"

namespace attnctl {

/// Which slices of the stored projections the heads use: kv_heads and head_slices of `attention`, whose heads
/// are known. From /kv_heads, or for tied heads from /head_slices and the query projection. Throws
/// Error(bad_input) with the JSON pointer.
void resolve_heads(const ShapeReader& reader, const ConfigReader& config, const TensorNames& names,
                   const LocatedTensor& query, AttentionConfig& attention);

}  // namespace attnctl
