#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attnctl {

/// A tokenizer as a weights file holds it (GGUF, the keys "tokenizer.ggml."), checked for its form: what its
/// parts mean is the tokenizer's business. Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
struct TokenizerSection {
  enum class Type : std::uint8_t { undefined, normal, unknown, control, user_defined, unused, byte };

  std::string file;   // escaped
  std::string model;  // what kind it is: "llama", "gpt2", ...
  std::string pre;    // how texts are cut before; empty where nothing is said
  std::vector<std::string> tokens;
  std::vector<float> scores;  // one a token, finite; or none
  std::vector<Type> types;    // one a token
  std::vector<std::string> merges;
  std::vector<std::pair<std::string_view, std::size_t>>
      roles;  // "bos_token" and the like; below tokens.size()
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
};

}  // namespace attnctl
