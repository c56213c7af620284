#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>

namespace attnctl {

/// Gives inputs their ids, which are their numbers unless they have their own, and sees that none is
/// repeated. Takes memory for inputs behind the first id of its own alone, 16 bytes each whatever the ids
/// are.
class InputIds {
 public:
  /// The id of the next input; `own` is empty where it has none. Throws Error(bad_input) where it was there
  /// before.
  [[nodiscard]] std::string next(std::string_view own);

 private:
  /// Two hashes: that both of two ids agree is not to be expected in any corpus.
  struct Key {
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const { return static_cast<std::size_t>(key.a); }
  };
  static Key key_of(std::string_view id);

  std::uint64_t count_ = 0;
  std::uint64_t numbered_ = 0;  // the first so many have no id of their own
  std::unordered_set<Key, KeyHash> seen_;
};

}  // namespace attnctl
