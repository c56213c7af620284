#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "study/measure.hpp"
#include "study/state/state_io.hpp"

namespace attnctl {

/// Names of the token ids that a measure uses. They are part of its state, because results are written
/// without the model.
class TokenNames {
 public:
  /// Adds the token at a position of a sequence. The name is "#id" if the input has only ids.
  void add(const Sequence& sequence, std::size_t position);
  [[nodiscard]] std::string of(std::int64_t id) const;

  void merge(const TokenNames& other) { names_.insert(other.names_.begin(), other.names_.end()); }
  void save(StateWriter& out) const { save_state(out, names_); }
  void load(StateReader& in) { load_state(in, names_); }

 private:
  std::map<std::int64_t, std::string> names_;
};

/// PerHead with the names of the tokens in its states.
template <typename State>
class PerHeadOfTokens : public PartsMeasure<PerHeadOfTokens<State>> {
 public:
  explicit PerHeadOfTokens(const StudyShape& shape) : shape_(shape), states_(shape.heads.size()) {}

  auto parts() { return std::tie(states_, names_); }

 protected:
  const StudyShape& shape_;  // outlives the measure
  std::vector<State> states_;
  TokenNames names_;
};

/// The id of the target "position 0". The other targets are special tokens, by token id.
constexpr std::int64_t kFirstPosition = -1;
/// Positions in a sequence, by the id of a token or target.
using PositionsOf = std::map<std::int64_t, std::vector<std::size_t>>;

/// Returns the positions of the special tokens of a sequence from position `first` on. Adds their names to
/// `names`.
[[nodiscard]] PositionsOf special_positions(const Sequence& sequence, std::size_t first, TokenNames& names);
/// Returns the positions of each target in a sequence: position 0 and all special tokens.
[[nodiscard]] PositionsOf special_targets(const Sequence& sequence, TokenNames& names);

/// Returns the name of a target: "[SEP]" or "position 0".
[[nodiscard]] std::string target_name(std::int64_t target, const TokenNames& names);
/// Return the columns token and position of a target. One of the two is undefined.
[[nodiscard]] Cell target_token(std::int64_t target, const TokenNames& names);
[[nodiscard]] Cell target_position(std::int64_t target);

}  // namespace attnctl
