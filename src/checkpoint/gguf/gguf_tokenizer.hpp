#pragma once

#include <memory>
#include <string>

#include "checkpoint/gguf/gguf_metadata.hpp"
#include "formats/tokenizer_section.hpp"

namespace attnctl {

/// The tokenizer of a GGUF file; null where it says nothing of one. Throws Error(bad_input) for lists of
/// another type or length than they must have, tokens of bytes that are none (<0x-1>) and ids that no token
/// has. `file` is escaped.
[[nodiscard]] std::shared_ptr<const TokenizerSection> read_gguf_tokenizer(const std::string& file,
                                                                          const GgufMetadata& metadata);

}  // namespace attnctl
