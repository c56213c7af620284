#pragma once

#include <cstddef>
#include <string_view>

#include "tokenizer/files/part_config.hpp"
#include "tokenizer/models/piece_text.hpp"

namespace attnctl {

/// What becomes of the matches that a text is cut at.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Throws Error(bad_input) where the key holds no behaviour; `otherwise` is for where it is missing.
[[nodiscard]] SplitBehavior read_split_behavior(const PartConfig& config, std::string_view key,
                                                const SplitBehavior* otherwise = nullptr);

/// Takes the matches and the gaps of a text in order, and adds the pieces that the behaviour makes of them.
class Splitter {
 public:
  Splitter(SplitBehavior behavior, PieceText::Cuts& cuts) : behavior_(behavior), cuts_(cuts) {}

  void add(std::size_t begin, std::size_t end, bool is_match) {
    if (!joins(is_match)) {
      finish();
      begin_ = begin;
      dropped_ = is_match && behavior_ == SplitBehavior::removed;
      open_ = true;
    }
    end_ = end;
    after_match_ = is_match;
  }

  /// Call behind the last one.
  void finish() {
    if (open_ && !dropped_) cuts_.add(begin_, end_);
    open_ = false;
  }

 private:
  [[nodiscard]] bool joins(bool is_match) const {
    if (!open_) return false;
    switch (behavior_) {
      case SplitBehavior::merged_with_previous:
        return is_match && !after_match_;
      case SplitBehavior::merged_with_next:
        return !is_match && after_match_;
      case SplitBehavior::contiguous:
        return is_match == after_match_;
      case SplitBehavior::removed:
      case SplitBehavior::isolated:
        break;
    }
    return false;
  }

  SplitBehavior behavior_;
  PieceText::Cuts& cuts_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool open_ = false;
  bool dropped_ = false;
  bool after_match_ = false;
};

}  // namespace attnctl
