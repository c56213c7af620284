#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "study/measure.hpp"
#include "study/state/state_io.hpp"

namespace attnctl {

/// Names of the token ids that a measure uses. They are part of its state, because results are written
/// without the model.
class TokenNames {
 public:
  /// Adds the token at a position of a sequence. The name is "#id" if the input has only ids.
  void add(const Sequence& sequence, std::size_t place);
  [[nodiscard]] std::string of(std::int64_t id) const;

  void merge(const TokenNames& other) { names_.insert(other.names_.begin(), other.names_.end()); }
  void save(StateWriter& out) const;
  void load(StateReader& in);

 private:
  std::map<std::int64_t, std::string> names_;
};

/// PerHead with the names of the tokens in its states.
template <typename State>
class PerHeadOfTokens : public PerHead<State> {
 public:
  using PerHead<State>::PerHead;

  void merge(const Measure& other) override {
    PerHead<State>::merge(other);
    names_.merge(dynamic_cast<const PerHeadOfTokens&>(other).names_);
  }
  void save(StateWriter& out) const override {
    PerHead<State>::save(out);
    names_.save(out);
  }
  void load(StateReader& in) override {
    PerHead<State>::load(in);
    names_.load(in);
  }

 protected:
  TokenNames names_;
};

}  // namespace attnctl
