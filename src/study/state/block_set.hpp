#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

namespace attnctl::study {

/// A set of block numbers. Memory is in proportion to the number of runs of consecutive blocks.
class BlockSet {
 public:
  /// Adds blocks [first, last), which must not be empty. If the set has some of them already, adds none and
  /// returns the lowest of these.
  std::optional<std::uint64_t> insert(std::uint64_t first, std::uint64_t last) {
    auto next = runs_.upper_bound(first);
    auto before = next == runs_.begin() ? runs_.end() : std::prev(next);
    if (before != runs_.end() && before->second > first) return first;
    if (next != runs_.end() && next->first < last) return next->first;
    size_ += last - first;
    if (before == runs_.end() || before->second != first) before = runs_.emplace_hint(next, first, last);
    before->second = last;
    if (next == runs_.end() || next->first != last) return std::nullopt;
    before->second = next->second;
    runs_.erase(next);
    return std::nullopt;
  }

  [[nodiscard]] bool contains(std::uint64_t block) const {
    const auto next = runs_.upper_bound(block);
    return next != runs_.begin() && block < std::prev(next)->second;
  }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return runs_.empty(); }
  /// The runs in ascending order: the first block of each, and the block after its last one.
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& runs() const { return runs_; }
  /// Returns the difference of the two lowest blocks (N for a finished shard I/N); 0: fewer than two blocks.
  [[nodiscard]] std::uint64_t step() const {
    if (size_ < 2) return 0;
    const auto& [first, last] = *runs_.begin();
    return last - first > 1 ? 1 : std::next(runs_.begin())->first - first;
  }
  /// Returns the lowest blocks below `end` that are not in the set, at most `count`.
  [[nodiscard]] std::vector<std::uint64_t> missing(std::uint64_t end, std::size_t count) const {
    std::vector<std::uint64_t> missing;
    std::uint64_t block = 0;
    const auto add_until = [&](std::uint64_t stop) {
      for (; block < std::min(stop, end) && missing.size() < count; ++block) missing.push_back(block);
    };
    for (const auto& [first, last] : runs_) {
      add_until(first);
      block = last;
    }
    add_until(end);
    return missing;
  }
  /// Returns whether each block from `step` on and below `end` is in the set exactly if the block `step`
  /// before it is.
  [[nodiscard]] bool repeats(std::uint64_t step, std::uint64_t end) const {
    BlockSet later, shifted;
    for (const auto& [first, last] : runs_) {
      if (std::max(first, step) < std::min(last, end))
        later.insert(std::max(first, step), std::min(last, end));
      if (first + step < end) shifted.insert(first + step, std::min(last + step, end));
    }
    return later.runs_ == shifted.runs_;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> runs_;
  std::uint64_t size_ = 0;
};

}  // namespace attnctl::study
