#include "report/npz/npy_header.hpp"

#include <fmt/format.h>

namespace attnctl {

std::string npy_header(std::string_view descr, const Shape& shape) {
  std::string extents;
  for (const std::size_t extent : shape) extents += fmt::format("{}, ", extent);
  if (shape.size() > 1) extents.resize(extents.size() - 2);
  if (shape.size() == 1) extents.pop_back();  // Python writes the tuple of one as (3,)
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, extents);
  constexpr std::size_t before = 10;  // magic, version, length
  const std::size_t total = (before + text.size() + 1 + 63) / 64 * 64;
  text.append(total - before - text.size() - 1, ' ');
  text += '\n';
  std::string header = "\x93NUMPY";
  header += '\x01';
  header += '\x00';
  header += static_cast<char>(text.size() & 0xFFU);
  header += static_cast<char>(text.size() >> 8U);
  return header + text;
}

}  // namespace attnctl
