#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/numbers.hpp"
#include "checkpoint/readers.hpp"
#include "formats/json.hpp"

namespace attnctl::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

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

void read_shard_index(const MappedFile& file, Checkpoint& checkpoint, Warnings& warnings) {
  const Json index = formats::parse_json_part({.file = file.name(), .text = file.text()});
  const bool torch = lower_case(file.path()).ends_with(".bin.index.json");
  const Json& map = weight_map_of(file, index, torch ? ".bin" : ".safetensors");
  const std::filesystem::path directory = std::filesystem::path(file.path()).parent_path();
  std::map<std::string, std::string> shards;  // from the name in the index to the name in messages
  for (const Json& shard : map) {
    const std::filesystem::path path = directory / shard.get_ref<const std::string&>();
    if (shards.try_emplace(shard.get<std::string>(), escaped(path.string())).second)
      read_weights(path, Status::bad_input, checkpoint, warnings);
  }
  checkpoint.sort();
  const auto all = checkpoint.tensors();
  const auto twice = std::ranges::adjacent_find(all, {}, &TensorInfo::name);
  if (twice != all.end()) {
    refuse_tensor(twice[0].file, twice->name, "stored in this shard and in {}, need it in only one shard",
                  twice[1].file);
  }
  for (const auto& [tensor, shard] : map.items()) {
    const auto& name = shard.get_ref<const std::string&>();
    const std::size_t found = checkpoint.find(tensor);
    if (found == Checkpoint::npos || all[found].file != shards.at(name)) {
      refuse(file.name(), "/weight_map: tensor {} is not in {}; need the shard that contains it",
             in_quotes(tensor), in_quotes(name));
    }
  }
  warn_of_differences(file, index, checkpoint, warnings);
}

}  // namespace attnctl::checkpoint
