#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "input/batch.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// Checks whether a token belongs to the text: it is neither special nor hidden from attention.
[[nodiscard]] bool is_ordinary(const Sequence& sequence, std::size_t token);

/// The number of occurrences of each ordinary token in a corpus, by id.
class TokenFrequencies {
 public:
  /// Counts the ordinary tokens of a sequence. The ids must be valid ids of the model.
  void add(const Sequence& sequence);
  void set(std::int64_t id, std::uint64_t count);
  /// Returns 0 for a token that does not occur.
  [[nodiscard]] std::uint64_t of(std::int64_t id) const;

 private:
  std::vector<std::uint64_t> counts_;  // by id
};

/// Returns the positions of the rarest ordinary tokens of a sequence, ascending. There are several if a token
/// occurs several times or if tokens are equally rare. The result is empty if no token is ordinary.
[[nodiscard]] std::vector<std::size_t> rarest_tokens(const Sequence& sequence,
                                                     const TokenFrequencies& frequencies);

/// Reads lines TOKEN<TAB>COUNT. The first line may be a header, "token<TAB>count" or "id<TAB>count". With the
/// latter, the lines have ids from 0 to `ids` - 1 instead of tokens. A token without a line has the count 0.
/// Throws Error(environment) if the file cannot be read, and Error(bad_input) with the line number if a line
/// is malformed or names an unknown or repeated token.
[[nodiscard]] TokenFrequencies read_frequencies(const std::filesystem::path& path,
                                                const Vocabulary& vocabulary, std::size_t ids);

}  // namespace attnctl
