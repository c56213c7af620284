#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "study/measure.hpp"
#include "study/state/state_io.hpp"

namespace attnctl::study {

/// The id of the target "position 0". A target is a key, or all keys with the same special token, whose
/// attention weight is measured. The id of a special token as a target is its token id.
constexpr std::int64_t kFirstPosition = -1;

/// The names of the token ids that the states of a measure (PerHead) use. The names are part of the state of
/// the measure, because results are written without the model.
class TokenNames {
 public:
  /// Adds the token at a position of a sequence. The name is "#id" if the input has only ids.
  void add(const input::Sequence& sequence, std::size_t position);
  /// Returns the name of a token or target, such as "[SEP]" or "position 0".
  [[nodiscard]] std::string of(std::int64_t id) const;

  void merge(const TokenNames& other) { names_.insert(other.names_.begin(), other.names_.end()); }
  void save(StateWriter& out) const { save_state(out, names_); }
  void load(StateReader& in) { load_state(in, names_); }

 private:
  std::map<std::int64_t, std::string> names_;
};

/// Maps the id of a token or target to its positions in a sequence.
using PositionsOf = std::map<std::int64_t, std::vector<std::size_t>>;

/// Returns the positions, from `first` on, of the special tokens of a sequence. Adds the names of these
/// tokens to `names`.
[[nodiscard]] PositionsOf special_positions(const input::Sequence& sequence, std::size_t first,
                                            TokenNames& names);
/// Returns the positions of each target in a sequence: position 0 and all special tokens.
[[nodiscard]] PositionsOf special_targets(const input::Sequence& sequence, TokenNames& names);

/// Return the cells of a target for the columns token and position. One of the two cells is undefined.
[[nodiscard]] Cell target_token(std::int64_t target, const TokenNames& names);
[[nodiscard]] Cell target_position(std::int64_t target);

}  // namespace attnctl::study
