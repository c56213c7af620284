#include "cli/shapes.hpp"

#include "attnctl/base/checked.hpp"

#include <variant>

namespace attnctl::cli {

Array item_of(const Array& array, std::size_t index, std::size_t axes) {
  Array item;
  item.shape.assign(array.shape.end() - static_cast<std::ptrdiff_t>(axes), array.shape.end());
  item.owner = array.owner;
  const std::size_t size = checked_product(item.shape).value();
  std::visit([&](const auto& values) { item.values = values.subspan(index * size, size); }, array.values);
  return item;
}

}  // namespace attnctl::cli
