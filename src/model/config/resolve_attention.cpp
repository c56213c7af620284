#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.hpp"
#include "model/config/resolve.hpp"
#include "model/rotary.hpp"

namespace attnctl {
namespace {

bool resolve_presence(std::span<const StoredTensor> names, const Presence& presence,
                      const ConfigReader& config) {
  if (names.empty() || presence.rule == Presence::Rule::stored) return false;
  if (presence.rule != Presence::Rule::configured) return true;  // widths are compared where both are known
  return config.flag(presence.key).value_or(presence.otherwise);
}

std::size_t resolve_head_width(const FamilySpec& family, const ConfigReader& config, std::size_t d_model,
                               std::size_t heads) {
  if (const auto width = config.size(std::span(family.keys.d_head.names))) {
    if (*width > widest_head) {
      fail(Status::limit, "{}: {}: got {}, the limit is {}", escaped(config.file()),
           config.pointer(config.find(family.keys.d_head.names)->name), *width, widest_head);
    }
    return *width;
  }
  if (family.keys.d_head.otherwise) return *family.keys.d_head.otherwise;
  check_multiple(config, config.name_of(family.keys.d_model), d_model, config.name_of(family.keys.heads),
                 heads);
  return d_model / heads;
}

/// A null says: as many as heads.
std::size_t resolve_kv_heads(const SizeKey& key, const ConfigReader& config, std::size_t heads) {
  if (const auto said = config.size(std::span(key.names))) return *said;
  const bool null = std::ranges::any_of(key.names, [&](const auto& name) { return config.is_null(name); });
  return null ? heads : key.otherwise.value_or(heads);
}

}  // namespace

LinearParts resolve_parts(const LinearSpec& spec, const ConfigReader& config) {
  return {resolve_presence(spec.weight, spec.weight_presence, config),
          resolve_presence(spec.bias, spec.bias_presence, config)};
}

AttentionConfig resolve_attention(const FamilySpec& family, const ConfigReader& config,
                                  const ModelConfig& model) {
  AttentionConfig attention;
  attention.heads = config.size(family.keys.heads);
  attention.kv_heads = resolve_kv_heads(family.keys.kv_heads, config, attention.heads);
  if (attention.heads % attention.kv_heads != 0) {
    check_multiple(config, config.name_of(family.keys.heads), attention.heads,
                   config.name_of(family.keys.kv_heads), attention.kv_heads);
  }
  attention.d_head = resolve_head_width(family, config, model.d_model, attention.heads);
  attention.d_value = attention.d_head;
  const double scale = config.number(family.keys.scale);
  attention.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(attention.d_head));
  attention.clip = static_cast<float>(config.number(family.keys.clip));
  attention.soft_cap = static_cast<float>(config.number(family.keys.soft_cap));
  attention.sinks = !family.stack.layer.sinks.empty();
  if (family.alibi != AlibiSlopes::none) {
    attention.alibi = std::make_shared<const AlibiConfig>(
        AlibiConfig{alibi_slopes(family.alibi, attention.heads), family.counts_visible,
                    family.alibi_from_last, family.alibi_rounded});
  }
  attention.causal =
      family.causal || (!family.keys.causal_if.empty() && config.flag(family.keys.causal_if).value_or(false));
  if (family.rotary) {
    attention.rotary = std::make_shared<const RotaryConfig>(
        resolve_rotary(*family.rotary, config, attention.d_head, model.max_positions.value()));
  }
  if (family.stack.relative) {
    attention.relative_buckets =
        std::make_shared<const RelativeBuckets>(resolve_relative_buckets(*family.stack.relative, config));
  }
  if (family.stack.disentangled) resolve_disentangled(family, config, model, attention);
  const LayerSpec& layer = family.stack.layer;
  attention.query = resolve_parts(layer.query, config);
  attention.key = resolve_parts(layer.key, config);
  attention.value = resolve_parts(layer.value, config);
  attention.output = resolve_parts(layer.output, config);
  return attention;
}

}  // namespace attnctl
