#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attnctl {

/// Pairs of tokens in one block of bytes, less than 4 GiB: a file may hold some hundred thousand of them.
class MergeList {
 public:
  /// Adds a side; two of them are a merge.
  void add_side(std::string_view token) {
    bytes_ += token;
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  void add(std::string_view left, std::string_view right) {
    add_side(left);
    add_side(right);
  }
  /// For a file of so many bytes.
  void reserve(std::size_t bytes) {
    bytes_.reserve(bytes);
    ends_.reserve(bytes / 4);
  }

  [[nodiscard]] std::size_t size() const { return ends_.size() / 2; }
  [[nodiscard]] std::pair<std::string_view, std::string_view> operator[](std::size_t merge) const {
    const std::size_t begin = merge == 0 ? 0 : ends_[2 * merge - 1];
    const std::size_t middle = ends_[2 * merge];
    const std::string_view bytes = bytes_;
    return {bytes.substr(begin, middle - begin), bytes.substr(middle, ends_[2 * merge + 1] - middle)};
  }

 private:
  std::string bytes_;
  std::vector<std::uint32_t> ends_;  // [2 * merges]
};

}  // namespace attnctl
