#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attnctl::formats {

/// The tokenizer in a GGUF file: the values of the keys that begin with "tokenizer.ggml." and that attnctl
/// uses. Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
struct TokenizerSection {
  enum class Type : std::uint8_t { undefined, normal, unknown, control, user_defined, unused, byte };

  std::string file;                 // name of the GGUF file, escaped
  std::string model;                // the kind of tokenizer: "llama", "gpt2", ...
  std::string pre;                  // the name of the pre-tokenizer; empty if missing
  std::vector<std::string> tokens;  // UTF-8; the index is the id
  std::vector<float> scores;        // one finite number per token, or empty
  std::vector<Type> types;          // one per token
  std::vector<std::string> merges;  // elements "left right", not checked
  std::vector<std::pair<std::string_view, std::size_t>>
      roles;  // (role, token id), for example "bos_token"; each id is less than tokens.size()
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
};

}  // namespace attnctl::formats
