#pragma once

#include <cstddef>
#include <string>

#include "report/number_format.hpp"
#include "results/result.hpp"

namespace attnctl {

/// How an array's text is laid out between its outermost brackets.
struct ArrayLayout {
  bool lines = false;      // each innermost row on a line of its own
  std::size_t indent = 0;  // of such a line
};

/// Appends the elements first..last of the packed array as nested JSON lists with their commas, but without
/// the outermost brackets: ranges appended one after the other make the whole. The array has a rank of at
/// least 1 and no empty extent.
void append_array_range(std::string& text, const NumberFormat& format, const Array& array,
                        const ArrayLayout& layout, std::size_t first, std::size_t last);

/// A list without numbers: "[]", or "[[], []]" for the shape [2, 0].
void append_empty_array(std::string& text, const Shape& shape, std::size_t dimension = 0);

/// A cell as JSON; numbers that are not finite, and undefined, are null.
void append_cell(std::string& text, const NumberFormat& format, const Cell& cell);

}  // namespace attnctl
