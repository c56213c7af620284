#include "support/torch_bytes.hpp"

#include <stdexcept>

#include "support/bytes.hpp"

namespace attnctl::test {

std::string torch_text(std::string_view text) {
  return "X" + little_endian(text.size(), 4) + std::string(text);
}

std::string torch_tensor(const TorchTensor& tensor) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + torch_text("storage") + tensor.storage +
         torch_text(tensor.key) + torch_text("cpu") + tensor.count + "tQ" + tensor.offset + tensor.shape +
         tensor.strides + "\x89" + "ccollections\nOrderedDict\n)R" + tensor.metadata + "tR";
}

std::string torch_number(std::size_t number) {
  return "\x8a\x08" + little_endian(number, 8);
}

std::string torch_pickle(const std::vector<std::pair<std::string, TorchTensor>>& tensors) {
  std::string items;
  for (const auto& [name, tensor] : tensors) items += torch_text(name) + torch_tensor(tensor);
  return "\x80\x02}(" + items + "u.";
}

std::string torch_file_of(checkpoint::Checkpoint& checkpoint) {
  std::vector<std::pair<std::string, TorchTensor>> tensors;
  std::vector<ZipPart> parts(1);
  for (std::size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    const checkpoint::TensorView view = checkpoint.tensor(i);
    if (view.dtype != DType::f32 && view.dtype != DType::f16) {
      throw std::runtime_error("torch_file_of writes F32 and F16 alone");
    }
    TorchTensor tensor;
    if (view.dtype == DType::f16) tensor.storage = "ctorch\nHalfStorage\n";
    std::size_t count = 1;
    tensor.key = std::to_string(i);
    tensor.shape = "(";
    tensor.strides = "t";
    for (const std::size_t extent : view.shape) tensor.shape += torch_number(extent);
    for (std::size_t d = view.shape.size(); d-- > 0;) {
      tensor.strides.insert(0, torch_number(count));
      count *= view.shape[d];
    }
    tensor.shape += "t";
    tensor.strides.insert(0, "(");
    tensor.count = torch_number(count);
    tensors.emplace_back(checkpoint.tensors()[i].name, tensor);
    parts.push_back({.name = "m/data/" + tensor.key,
                     .data = {reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()}});
  }
  parts[0] = {.name = "m/data.pkl", .data = torch_pickle(tensors)};
  return zip(parts);
}

}  // namespace attnctl::test
