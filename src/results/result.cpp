#include "results/result.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/checked.hpp"

namespace attnctl {
namespace {

template <typename T>
Array own(Shape shape, std::vector<T> values) {
  if (checked_product(shape) != values.size()) {
    throw std::invalid_argument("an array given " + std::to_string(values.size()) +
                                " values, another number than its shape has");
  }
  const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  return {std::move(shape), std::span<const T>(*owner), owner};
}

}  // namespace

Table make_table(std::string name, std::vector<std::string> columns, std::vector<std::vector<Cell>> rows) {
  for (const std::vector<Cell>& row : rows) {
    if (row.size() != columns.size()) {
      throw std::invalid_argument("a row of " + std::to_string(row.size()) + " cells in the table " + name +
                                  " of " + std::to_string(columns.size()) + " columns");
    }
  }
  const std::size_t count = rows.size();
  const auto held = std::make_shared<const std::vector<std::vector<Cell>>>(std::move(rows));
  return {std::move(name), std::move(columns), count, [held](std::size_t index, std::span<Cell> cells) {
            std::ranges::copy(held->at(index), cells.begin());
          }};
}

std::size_t Array::size() const {
  return std::visit([](const auto& span) { return span.size(); }, values);
}

Array make_array(Shape shape, std::vector<float> values) {
  return own(std::move(shape), std::move(values));
}

Array make_array(Shape shape, std::vector<double> values) {
  return own(std::move(shape), std::move(values));
}

Array make_array(Shape shape, std::vector<std::int64_t> values) {
  return own(std::move(shape), std::move(values));
}

Value::Value(Record record) : data(std::make_shared<const Record>(std::move(record))) {}

}  // namespace attnctl
