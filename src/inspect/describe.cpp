#include "inspect/describe.hpp"

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "base/checked.hpp"
#include "base/undefined.hpp"

namespace attnctl::cli {

Array item_of(const Array& array, std::size_t index, std::size_t axes) {
  Array item;
  item.shape.assign(array.shape.end() - static_cast<std::ptrdiff_t>(axes), array.shape.end());
  item.owner = array.owner;
  const std::size_t size = checked_product(item.shape).value();
  std::visit([&](const auto& values) { item.values = values.subspan(index * size, size); }, array.values);
  return item;
}

Array float_array(Shape shape, std::span<const double> values) {
  std::vector<float> narrow;
  narrow.reserve(values.size());
  for (const double value : values) narrow.push_back(static_cast<float>(value));
  return make_array(std::move(shape), std::move(narrow));
}

Array float_array(const OwnedMatrix<double>& matrix) {
  return float_array({matrix.rows(), matrix.cols()}, matrix.values());
}

List names_of(const ModelConfig& config, std::span<const HeadId> heads) {
  List names;
  for (const HeadId head : heads) names.emplace_back(head_name(config, head));
  return names;
}

Value component_of(const ModelConfig& config, const std::optional<std::size_t>& layer) {
  const Component component = layer ? config.layers.at(*layer).component : Component::none;
  return component == Component::none ? Value() : Value(std::string(name_of(component)));
}

Value number_of(const ModelConfig& config, const std::optional<std::size_t>& layer) {
  return layer ? Value(config.layers.at(*layer).number) : Value();
}

Cell number_cell(const ModelConfig& config, std::size_t layer) {
  return cell_of(config.layers.at(layer).number);
}

std::string prefix_of(Component component) {
  return component == Component::none ? "" : std::string(name_of(component)) + "_";
}

Value or_null(const std::optional<double>& value) {
  return value ? Value(*value) : Value();
}
Value or_null(const std::optional<std::size_t>& value) {
  return value ? Value(*value) : Value();
}

Cell cell_of(std::size_t number) {
  return static_cast<std::int64_t>(number);
}
Cell cell_of(double number) {
  return is_undefined(number) ? Cell() : Cell(static_cast<float>(number));
}
Cell cell_of(const std::optional<double>& number) {
  return number ? cell_of(*number) : Cell();
}
Cell cell_of(const std::optional<std::size_t>& number) {
  return number ? cell_of(*number) : Cell();
}

}  // namespace attnctl::cli
