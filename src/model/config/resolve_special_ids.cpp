#include <algorithm>
#include <utility>

#include "model/config/resolve.hpp"

namespace attnctl {

std::vector<std::int64_t> resolve_special_ids(const ConfigReader& config, std::size_t vocabulary) {
  std::vector<std::int64_t> ids;
  const auto add = [&](const nlohmann::ordered_json& id) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0) return;
    if (std::cmp_less(id.get<std::int64_t>(), vocabulary)) ids.push_back(id.get<std::int64_t>());
  };
  for (const std::string name :
       {"bos_token_id", "eos_token_id", "pad_token_id", "cls_token_id", "sep_token_id"}) {
    const auto value = config.find(name);
    if (!value) continue;
    if (value->json->is_array()) {
      for (const auto& id : *value->json) add(id);
    } else {
      add(*value->json);
    }
  }
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace attnctl
