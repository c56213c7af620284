#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "input/batch.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// Whether a token is of the text itself: not special, and not hidden from attention.
[[nodiscard]] bool is_ordinary(const Sequence& sequence, std::size_t token);

/// How often each token comes in a corpus, by id: ordinary tokens alone.
class TokenFrequencies {
 public:
  /// Counts the ordinary tokens of a sequence, whose ids are those of a model.
  void add(const Sequence& sequence);
  void set(std::int64_t id, std::uint64_t count);
  /// 0 for a token that never came.
  [[nodiscard]] std::uint64_t of(std::int64_t id) const;

 private:
  std::vector<std::uint64_t> counts_;  // by id
};

/// The places of a sequence's rarest ordinary tokens, ascending: one token that comes several times, or
/// several that are equally rare. Empty where no token is ordinary.
[[nodiscard]] std::vector<std::size_t> rarest_tokens(const Sequence& sequence,
                                                     const TokenFrequencies& frequencies);

/// Reads lines TOKEN<TAB>COUNT. The first line may name the columns, "token<TAB>count" or "id<TAB>count";
/// under the latter ids stand in the place of tokens, 0 to `ids` - 1. A token that no line has comes 0 times.
/// Throws Error: environment where the file cannot be read, bad_input with its line where one is no such
/// line, names a token that the vocabulary has not, or one that was named before.
[[nodiscard]] TokenFrequencies read_frequencies(const std::filesystem::path& path,
                                                const Vocabulary& vocabulary, std::size_t ids);

}  // namespace attnctl
