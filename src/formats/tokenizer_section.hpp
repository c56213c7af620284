#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attnctl::formats {

/// The tokenizer section of a GGUF file: the keys that begin with "tokenizer.ggml.". The GGUF reader checks
/// types and sizes; the tokenizer checks the values. Source:
/// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
struct TokenizerSection {
  enum class Type : std::uint8_t { undefined, normal, unknown, control, user_defined, unused, byte };

  std::string file;   // escaped
  std::string model;  // the kind of tokenizer: "llama", "gpt2", ...
  std::string pre;    // the name of the pre-tokenizer; empty if missing
  std::vector<std::string> tokens;
  std::vector<float> scores;  // one per token, finite; may be empty
  std::vector<Type> types;    // one per token
  std::vector<std::string> merges;
  std::vector<std::pair<std::string_view, std::size_t>>
      roles;  // (role, token id), for example "bos_token"; each id is less than tokens.size()
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
};

}  // namespace attnctl::formats
