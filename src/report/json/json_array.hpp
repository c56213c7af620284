#pragma once

#include <cstddef>
#include <string>

#include "report/number_format.hpp"
#include "results/result.hpp"

namespace attnctl {

/// The layout of an array's text between its outermost brackets.
struct ArrayLayout {
  bool lines = false;      // each innermost row on a separate line
  std::size_t indent = 0;  // indentation of these lines
};

/// Appends the elements first to last - 1 of the packed array as nested JSON lists with their commas, without
/// the outermost brackets. Consecutive ranges, appended in order, give the whole array. The array has at
/// least rank 1, and no extent is 0.
void append_array_range(std::string& text, const NumberFormat& format, const Array& array,
                        const ArrayLayout& layout, std::size_t first, std::size_t last);

/// Appends an array without elements: "[]", or "[[], []]" for the shape [2, 0].
void append_empty_array(std::string& text, const Shape& shape, std::size_t dimension = 0);

/// Appends a cell as JSON. Undefined cells and numbers that are not finite become null.
void append_cell(std::string& text, const NumberFormat& format, const Cell& cell);

}  // namespace attnctl
