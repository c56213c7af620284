#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/files/part_config.hpp"

namespace attnctl {

/// Tells what text a single token stands for.
class Decoder {
 public:
  Decoder() = default;
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  /// The text of a token of the vocabulary. Bytes that are no whole character are shown as <0xE2>.
  [[nodiscard]] virtual std::string shown(std::string_view token) const = 0;
};
using DecoderPtr = std::unique_ptr<const Decoder>;

/// The decoder that a part of tokenizer.json describes. Throws Error(bad_input).
[[nodiscard]] DecoderPtr make_decoder(const PartConfig& config);

}  // namespace attnctl
