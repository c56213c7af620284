#include "model/config/shape_reader.hpp"

#include "base/checked.hpp"
#include "base/error.hpp"

namespace attnctl {

Extents ShapeReader::extents(const LocatedWeight& weight, std::size_t heads, bool output) const {
  if (weight.whole) return extents(*weight.whole, heads, output);
  const Extents first = extents(weight.first.value(), heads, output);
  const Extents last = extents(weight.last.value(), heads, output);
  if (first.out != last.in) {
    const TensorInfo& info = names_.info(*weight.first);
    refuse(*weight.last, fmt::format("{} inputs, the rank that tensor \"{}\" of shape {} has", first.out,
                                     escaped(info.name), to_string(info.shape)));
  }
  return {first.in, last.out};
}

Extents ShapeReader::extents(const LocatedTensor& tensor, std::size_t heads, bool output) const {
  const Shape& shape = names_.info(tensor).shape;
  Extents extents;
  if (shape.size() == 2) {
    extents = tensor.axes == Axes::out_in ? Extents{shape[1], shape[0]} : Extents{shape[0], shape[1]};
  } else if (shape.size() == 3 && tensor.axes == Axes::in_out_or_head) {
    if (shape[0] != heads) refuse(tensor, fmt::format("{} heads outermost", heads));
    extents = output ? Extents{multiplied(tensor, shape[0], shape[1]), shape[2]}
                     : Extents{shape[1], multiplied(tensor, shape[0], shape[2])};
  } else {
    refuse(tensor, tensor.axes == Axes::in_out_or_head ? "two or three dimensions" : "two dimensions");
  }
  if (extents.in == 0 || extents.out == 0) refuse(tensor, "no extent of 0");
  return extents;
}

std::size_t ShapeReader::rank(const LocatedTensor& first) const {
  const Shape& shape = names_.info(first).shape;
  if (shape.size() < 2 || shape.back() == 0) refuse(first, "two dimensions and no extent of 0");
  return shape.back();
}

std::size_t ShapeReader::own_outputs(const LocatedTensor& tensor, std::size_t outputs) const {
  if (tensor.packing == Packing::whole) return outputs;
  return divided(tensor, outputs, 3, "the three projections");
}

std::size_t ShapeReader::divided(const LocatedTensor& tensor, std::size_t width, std::size_t parts,
                                 std::string_view key) const {
  if (width % parts != 0) {
    refuse(tensor, fmt::format("{} to be a multiple of {} ({} in {})", width, parts, config_.pointer(key),
                               escaped(config_.file())));
  }
  return width / parts;
}

std::size_t ShapeReader::agreed(const std::string& key, std::size_t found,
                                const LocatedTensor& tensor) const {
  const auto said = config_.size(std::vector<std::string>{key});
  if (said && *said != found) {
    config_.refuse(*config_.find(key),
                   fmt::format("{} as tensor \"{}\" of shape {} has it", found,
                               escaped(names_.info(tensor).name), to_string(names_.info(tensor).shape)));
  }
  return found;
}

void ShapeReader::refuse(const LocatedTensor& tensor, const std::string& need) const {
  const TensorInfo& info = names_.info(tensor);
  fail(Status::bad_input, "{}: tensor \"{}\": got shape {}, need {}", info.file, escaped(info.name),
       to_string(info.shape), need);
}

std::size_t ShapeReader::multiplied(const LocatedTensor& tensor, std::size_t a, std::size_t b) const {
  const auto product = checked_product(std::vector<std::size_t>{a, b});
  if (!product) refuse(tensor, "extents whose product fits 64 bits");
  return *product;
}

}  // namespace attnctl
