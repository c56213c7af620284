#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace attnctl {

/// The keys j that a query i may attend to, before the causal mask and the masks of an input apply.
struct AttentionKind {
  enum class Rule {
    full,
    window,   // |i - j| < size: under a causal mask, the last `size` keys including the query's own position
    block,    // floor(i / size) == floor(j / size)
    strided,  // |i - j| < size or (i - j) mod size == 0 (Child et al. 2019, both patterns in one)
    linear    // all keys; weights are phi(q) phi(k)^T / sum, phi = elu + 1 (Katharopoulos et al. 2020)
  };
  Rule rule = Rule::full;
  std::size_t size = 0;  // at least 1 for window, block and strided

  friend bool operator==(const AttentionKind&, const AttentionKind&) = default;
};

/// Parses "full", "window:64", "block:16", "strided:8" or "linear". Returns nullopt for anything else.
[[nodiscard]] std::optional<AttentionKind> parse_attention_kind(std::string_view text);
[[nodiscard]] std::string to_string(const AttentionKind& kind);

/// The syntax of parse_attention_kind, for error messages.
inline constexpr std::string_view attention_kinds = "full, window:W, block:B, strided:S, linear";

}  // namespace attnctl
