#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace attnctl {

/// Which keys j a query i may attend to, besides the causal mask and all masks of an input, and how weights
/// come about.
struct AttentionKind {
  enum class Rule {
    full,
    window,   // |i - j| < size: under a causal mask the last `size` keys, itself included
    block,    // floor(i / size) == floor(j / size)
    strided,  // |i - j| < size or (i - j) mod size == 0 (Child et al. 2019, both patterns in one)
    linear    // all; weights are phi(q) phi(k)^T over their sum, phi = elu + 1 (Katharopoulos et al. 2020)
  };
  Rule rule = Rule::full;
  std::size_t size = 0;  // of window, block and strided: at least 1

  friend bool operator==(const AttentionKind&, const AttentionKind&) = default;
};

/// "full", "window:64", "block:16", "strided:8", "linear"; nullopt for anything else.
[[nodiscard]] std::optional<AttentionKind> parse_attention_kind(std::string_view text);
[[nodiscard]] std::string to_string(const AttentionKind& kind);

/// What parse_attention_kind takes, for errors.
inline constexpr std::string_view attention_kinds = "full, window:W, block:B, strided:S, linear";

}  // namespace attnctl
