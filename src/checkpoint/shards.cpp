#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/checked.hpp"
#include "checkpoint/readers.hpp"
#include "formats/json.hpp"

namespace attnctl::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

class ShardedCheckpoint final : public Checkpoint {
 public:
  explicit ShardedCheckpoint(std::vector<std::unique_ptr<Checkpoint>> shards) : shards_(std::move(shards)) {
    for (const auto& shard : shards_) {
      for (std::size_t i = 0; i < shard->tensors().size(); ++i) places_.push_back({shard.get(), i});
    }
    const auto info = [](const ShardTensor& place) -> const TensorInfo& {
      return place.shard->tensors()[place.index];
    };
    const auto name = [&](const ShardTensor& place) -> const std::string& { return info(place).name; };
    if (const ShardTensor* const twice = sort_by_name(places_, name)) {
      refuse_tensor(info(twice[0]).file, name(*twice),
                    "stored in this shard and in {}, need it in only one shard", info(twice[1]).file);
    }
    for (const ShardTensor& place : places_) tensors_.push_back(info(place));
  }

  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return tensors_; }
  [[nodiscard]] TensorView tensor(std::size_t index) override {
    const ShardTensor& place = places_.at(index);
    return place.shard->tensor(place.index);
  }
  void release(std::size_t index) override { places_.at(index).shard->release(places_[index].index); }
  [[nodiscard]] std::uint64_t copied_bytes(std::size_t index) const override {
    return places_.at(index).shard->copied_bytes(places_[index].index);
  }
  void forget(std::size_t index, std::span<const std::byte> part) override {
    places_.at(index).shard->forget(places_[index].index, part);
  }

 private:
  struct ShardTensor {
    Checkpoint* shard = nullptr;
    std::size_t index = 0;  // in shard->tensors()
  };
  std::vector<std::unique_ptr<Checkpoint>> shards_;
  std::vector<ShardTensor> places_;
  std::vector<TensorInfo> tensors_;
};

/// Checks and returns the member `weight_map` of an index: {tensor: shard}.
const Json& weight_map_of(const MappedFile& file, const Json& index, std::string_view extension) {
  if (!index.is_object())
    refuse(file.name(), "top level: got {}, need an object with weight_map", shown(index.dump()));
  const auto map = index.find("weight_map");
  if (map == index.end()) refuse(file.name(), "/weight_map: missing, need tensors and their shards");
  if (!map->is_object())
    refuse(file.name(), "/weight_map: got {}, need an object of tensors and their shards",
           shown(map->dump()));
  for (const auto& [tensor, shard] : map->items()) {
    const auto reject = [&, &name = tensor](std::string_view what) {
      refuse(file.name(), "/weight_map/{}: {}", shown(name), what);
    };
    if (!shard.is_string()) reject(fmt::format("got {}, need the name of a shard", shown(shard.dump())));
    const auto& path = shard.get_ref<const std::string&>();
    if (const auto fault = path_fault(path)) reject(fmt::format("got shard {}, {}", in_quotes(path), *fault));
    if (!path.ends_with(extension))
      reject(fmt::format("got shard {}, need the name of a {} file", in_quotes(path), extension));
  }
  return *map;
}

void warn_of_differences(const MappedFile& file, const Json& index, const Checkpoint& all,
                         Warnings& warnings) {
  double stored = 0;
  for (const TensorInfo& info : all.tensors())
    stored += static_cast<double>(checked_product(info.shape).value_or(0) * size_of(info.dtype));
  const Json metadata = index.value("metadata", Json::object());
  const auto total = metadata.find("total_size");
  if (total != metadata.end() && total->is_number() && total->get<double>() != stored) {
    warnings.add("total_size",
                 fmt::format("{}: /metadata/total_size: got {:.0f}, but the tensors have {:.0f} bytes",
                             file.name(), total->get<double>(), stored));
  }
  const std::size_t unlisted = all.tensors().size() - index.at("weight_map").size();
  if (unlisted > 0) {
    warnings.add(
        "unlisted_tensor",
        fmt::format("{}: /weight_map: the shards contain tensors that the index does not list", file.name()),
        unlisted);
  }
}

}  // namespace

std::unique_ptr<Checkpoint> open_shard_index(const MappedFile& file, std::string_view extension,
                                             Warnings& warnings) {
  const std::filesystem::path directory = std::filesystem::path(file.path()).parent_path();
  const Json index = formats::parse_json_part({.file = file.name(), .text = file.text()});
  const Json& map = weight_map_of(file, index, extension);
  std::vector<std::unique_ptr<Checkpoint>> shards;
  std::map<std::string, const Checkpoint*> opened;
  for (const auto& [tensor, shard] : map.items()) {
    const auto& name = shard.get_ref<const std::string&>();
    const Checkpoint*& checkpoint = opened[name];
    if (checkpoint == nullptr) {
      shards.push_back(open_checkpoint(directory / name, warnings, Status::bad_input));
      checkpoint = shards.back().get();
    }
    if (checkpoint->find(tensor) == Checkpoint::npos) {
      refuse(file.name(), "/weight_map: tensor {} is not in {}; need the shard that contains it",
             in_quotes(tensor), in_quotes(name));
    }
  }
  auto all = std::make_unique<ShardedCheckpoint>(std::move(shards));
  warn_of_differences(file, index, *all, warnings);
  return all;
}

}  // namespace attnctl::checkpoint
