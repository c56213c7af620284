#pragma once

#include "attnctl/study/state_io.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace attnctl {

struct Sequence;

/// What the tokens that a measure tells apart by their ids are called; part of its state, as results are
/// written without the model.
class TokenNames {
 public:
  /// The token at a place of a sequence; "#id" where the input gives ids alone.
  void add(const Sequence& sequence, std::size_t place);
  [[nodiscard]] std::string of(std::int64_t id) const;

  void merge(const TokenNames& other) { names_.insert(other.names_.begin(), other.names_.end()); }
  void save(StateWriter& out) const;
  void load(StateReader& in);

 private:
  std::map<std::int64_t, std::string> names_;
};

}  // namespace attnctl
