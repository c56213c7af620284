#include "support/memory_checkpoint.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/numbers.hpp"
#include "formats/json.hpp"
#include "support/bytes.hpp"

namespace attnctl::test {
MemoryTensor floats(Shape shape, const std::vector<float>& values) {
  MemoryTensor tensor = zeros(DType::f32, std::move(shape));
  if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), values.size() * sizeof(float));
  return tensor;
}

MemoryTensor ramp(Shape shape) {
  std::vector<float> values(checked_product(shape).value());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.01F * static_cast<float>(i * i % 97 + 1);
  return floats(std::move(shape), values);
}

MemoryTensor zeros(DType dtype, Shape shape) {
  MemoryTensor tensor = {dtype, std::move(shape), {}};
  tensor.bytes.resize(checked_product(tensor.shape).value() * size_of(dtype));
  return tensor;
}

MemoryModel MemoryModel::read(const std::filesystem::path& path) {
  Warnings warnings;
  const checkpoint::ModelSource source = checkpoint::open_model_source(path.string(), {}, warnings);
  MemoryModel model = {source.config, {}};
  for (std::size_t i = 0; i < source.weights->tensors().size(); ++i) {
    const checkpoint::TensorView view = source.weights->tensor(i);
    model.tensors[source.weights->tensors()[i].name] = {
        view.dtype, view.shape, std::vector<std::byte>(view.bytes.begin(), view.bytes.end())};
  }
  return model;
}

MemoryModel MemoryModel::golden(const std::string& name) {
  return read(std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden" / name);
}

void MemoryModel::write(const std::filesystem::path& folder) const {
  nlohmann::ordered_json header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    std::string dtype(name_of(tensor.dtype));
    std::ranges::transform(dtype, dtype.begin(), [](unsigned char c) { return std::toupper(c); });
    header[name] = {{"dtype", dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  std::ofstream(folder / "config.json") << config.dump();
  std::ofstream(folder / "model.safetensors", std::ios::binary) << safetensors(header.dump(), data);
}

model::Model MemoryModel::bound() const {
  static Warnings ignored;
  return model::Model::bind(source(), ignored);
}

MemoryModel MemoryModel::patched(std::string_view keys) const {
  MemoryModel changed = *this;
  const nlohmann::ordered_json patch = formats::parse_json("patch", keys);
  for (const auto& [key, value] : patch.items()) {
    if (value.is_null()) {
      changed.config.erase(key);
    } else {
      changed.config[key] = value;
    }
  }
  return changed;
}

MemoryModel MemoryModel::with_layers(std::size_t layers) const {
  const std::string prefix = "model.layers.";
  const auto of_layer = [&](std::size_t layer) { return prefix + std::to_string(layer) + "."; };
  const auto present = config.at("num_hidden_layers").get<std::size_t>();
  MemoryModel changed = *this;
  changed.config["num_hidden_layers"] = layers;
  std::erase_if(changed.tensors, [&](const auto& tensor) { return tensor.first.starts_with(prefix); });
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string from = of_layer(layer % present);
    for (const auto& [name, tensor] : tensors)
      if (name.starts_with(from)) changed.tensors[of_layer(layer) + name.substr(from.size())] = tensor;
  }
  return changed;
}

void MemoryModel::write_with_tokenizer(const std::filesystem::path& folder,
                                       const std::filesystem::path& of) const {
  write(folder);
  for (const char* const file : {"tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy_file(of / file, folder / file);
}

void MemoryModel::rename(std::string_view from, std::string_view to) {
  std::map<std::string, MemoryTensor> renamed;
  for (auto& [name, tensor] : tensors) {
    std::string changed = name;
    const std::size_t place = changed.find(from);
    if (place != std::string::npos) changed.replace(place, from.size(), to);
    renamed[changed] = std::move(tensor);
  }
  tensors = std::move(renamed);
}

checkpoint::ModelSource MemoryModel::source() const {
  checkpoint::ModelSource source;
  source.given = "model";
  source.config_path = "config.json";
  source.config = config;
  source.config_text = config.dump();
  source.weights = std::make_unique<checkpoint::Checkpoint>();
  const MappedFile& memory = source.weights->map("weights.bin", std::span<const std::byte>());
  for (const auto& [name, tensor] : tensors) {
    source.weights->add(
        memory, {name, tensor.dtype, tensor.shape}, {}, 0,
        [bytes = tensor.bytes](std::vector<std::byte>& /*copy*/) { return std::span(bytes); });
  }
  return source;
}

}  // namespace attnctl::test
