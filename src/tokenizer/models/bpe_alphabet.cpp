#include "tokenizer/models/bpe_alphabet.hpp"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
BpeAlphabet::BpeAlphabet(const TokenTable& vocabulary)
    : vocabulary_(&vocabulary), ids_(0x10000), bytes_(byte_tokens(vocabulary)) {
  for (std::size_t c = 0; c < ids_.size(); ++c) {
    ids_[c] = vocabulary.find(unicode::Utf8(static_cast<char32_t>(c)));
  }
}

bool BpeAlphabet::has_bytes() const {
  return std::any_of(bytes_.begin(), bytes_.end(), [](std::int32_t id) { return id >= 0; });
}

std::array<std::int32_t, 256> byte_tokens(const TokenTable& vocabulary) {
  std::array<std::int32_t, 256> ids{};
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = vocabulary.find(fmt::format("<0x{:02X}>", i));
  return ids;
}

}  // namespace attnctl
