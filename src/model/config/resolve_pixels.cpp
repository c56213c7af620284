#include <tuple>
#include <utility>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "model/config/resolve.hpp"

namespace attnctl {
namespace {

/// Height and width: a list of both, or one size for the two of them.
std::pair<std::size_t, std::size_t> extents(const SizeKey& key, const ConfigReader& config) {
  const auto value = config.find(key.names);
  if (!value || !value->json->is_array()) {
    const std::size_t size = config.size(key);
    return {size, size};
  }
  if (value->json->size() != 2) config.refuse(*value, "a size, or height and width");
  const auto one = [&](std::size_t i) {
    const nlohmann::ordered_json wrapped = {{value->name, value->json->at(i)}};
    return ConfigReader(config.file(), wrapped, config.whole()).size(key);
  };
  return {one(0), one(1)};
}

}  // namespace

PatchGrid resolve_pixels(const ConfigKeys& keys, const ConfigReader& config) {
  PatchGrid grid;
  if (keys.channels.names.empty()) return grid;
  grid.channels = config.size(keys.channels);
  std::tie(grid.height, grid.width) = extents(keys.image, config);
  std::tie(grid.patch_height, grid.patch_width) = extents(keys.patch, config);
  const std::string image = config.pointer(keys.image.names.front());
  if (grid.patch_height > grid.height || grid.patch_width > grid.width) {
    fail(Status::bad_input, "{}: {}: got {} by {}, need at least {} by {}, the size of a patch ({})",
         escaped(config.file()), image, grid.height, grid.width, grid.patch_height, grid.patch_width,
         config.pointer(keys.patch.names.front()));
  }
  const auto values = checked_product(Shape{grid.channels, grid.height, grid.width});
  if (!values || *values > ConfigReader::largest_size) {
    fail(Status::limit, "{}: {}: got {} channels of {} by {}, the limit is {} values", escaped(config.file()),
         image, grid.channels, grid.height, grid.width, ConfigReader::largest_size);
  }
  return grid;
}

}  // namespace attnctl
