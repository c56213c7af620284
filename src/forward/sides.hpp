#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "input/batch.hpp"
#include "model/config/config.hpp"

namespace attnctl {

/// The sequences that the queries and the keys of a layer are of: both the input, both its target, or the
/// target over the input.
struct Sides {
  const Sequence& queries_of;
  const Sequence& keys_of;  // also brings the masks

  [[nodiscard]] std::size_t queries() const { return queries_of.queries(); }
  [[nodiscard]] std::size_t keys() const { return keys_of.keys(); }
  /// Position i of the queries is position i of the keys.
  [[nodiscard]] bool same() const { return &queries_of == &keys_of && keys_of.key_embeddings.rows() == 0; }
  /// Tokens of the keys; none where they come from elsewhere.
  [[nodiscard]] std::span<const std::string> key_tokens() const {
    return keys_of.key_embeddings.rows() == 0 ? std::span(keys_of.tokens) : std::span<const std::string>();
  }
};

/// A component that needs a target must be given one.
[[nodiscard]] Sides sides_of(Component component, const Sequence& sequence);

/// Whether a layer of this component works on the target.
[[nodiscard]] inline bool needs_target(Component component) {
  return component == Component::decoder || component == Component::cross;
}

}  // namespace attnctl
