#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/files/part_config.hpp"

namespace attnctl {

/// A regular expression of tokenizer.json, which is written in Oniguruma's dialect. Shared by workers.
class Regex {
 public:
  /// Bytes [first, second) of a text.
  using Match = std::pair<std::size_t, std::size_t>;

  /// Throws Error(bad_input) at `where` if the pattern is damaged, or has something that is not supported.
  Regex(const PartConfig& where, std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// All matches in well-formed UTF-8, leftmost first; replaces what `matches` holds. An empty match right
  /// behind the match before it does not count. Throws Error(bad_input) where the pattern backtracks for
  /// too long.
  void find_all(std::string_view text, std::vector<Match>& matches) const;

 private:
  struct Program;
  std::unique_ptr<const Program> program_;
};

}  // namespace attnctl
