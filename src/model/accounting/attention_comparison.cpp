#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "model/accounting/accounting.hpp"

namespace attnctl {
namespace {

struct Variant {
  const char* name;
  std::size_t heads;
  std::size_t kv_heads;
};

/// One layer of nothing but attention.
ModelConfig attention_alone(const ModelConfig& config, const Variant& variant) {
  const LayerConfig& first = config.layers.at(0);
  ModelConfig alone;
  alone.d_model = config.d_model;
  alone.d_key_input = config.d_key_input;
  alone.d_value_input = config.d_value_input;
  alone.d_output = config.d_output;
  LayerConfig layer;
  layer.place = NormPlace::none;
  layer.attention = first.attention;
  AttentionConfig& attention = layer.attention;
  attention.heads = variant.heads;
  attention.kv_heads = variant.kv_heads;
  attention.head_slices.clear();  // no heads are tied
  attention.d_head = first.attention.d_head * first.attention.heads / variant.heads;
  attention.d_value = first.attention.d_value * first.attention.heads / variant.heads;
  alone.layers.push_back(std::move(layer));
  return alone;
}

/// The divisor of `heads` next to heads / 4 (the smaller of two) that is neither 1 nor `heads`.
std::optional<std::size_t> usual_groups(std::size_t heads) {
  std::optional<std::size_t> best;
  const auto miss = [&](std::size_t groups) {
    const double wanted = static_cast<double>(heads) / 4;
    return std::abs(static_cast<double>(groups) - wanted);
  };
  const auto offer = [&](std::size_t groups) {
    const bool nearer =
        !best || miss(groups) < miss(*best) || (miss(groups) == miss(*best) && groups < *best);
    if (nearer) best = groups;
  };
  for (std::size_t divisor = 2; divisor * divisor <= heads; ++divisor) {
    if (heads % divisor != 0) continue;
    offer(divisor);
    offer(heads / divisor);
  }
  return best;
}

std::vector<Variant> variants_of(const AttentionConfig& attention) {
  const std::size_t h = attention.heads;
  std::vector<Variant> variants = {{"single head", 1, 1}};
  if (h == 1) return variants;
  variants.push_back({"multi-head", h, h});
  if (!attention.key.weight) return variants;
  const bool grouped = attention.kv_heads > 1 && attention.kv_heads < h;
  if (const auto groups = grouped ? attention.kv_heads : usual_groups(h)) {
    variants.push_back({"grouped-query", h, *groups});
  }
  variants.push_back({"multi-query", h, 1});
  return variants;
}

Cell cell(std::uint64_t count) {
  const auto shown = checked_narrow<std::int64_t>(count);
  if (!shown) fail(Status::limit, "these sizes make counts over 63 bits; need smaller ones");
  return *shown;
}

}  // namespace

Table compare_attention(const ModelConfig& config, std::size_t length) {
  const AttentionConfig& own = config.layers.at(0).attention;
  std::vector<std::vector<Cell>> rows;
  for (const Variant& variant : variants_of(own)) {
    const ModelConfig alone = attention_alone(config, variant);
    const FlopCount flops = count_flops(alone, length);
    std::vector<Cell> row = {std::string(variant.name), own.head_slices.empty() &&
                                                            variant.heads == own.heads &&
                                                            variant.kv_heads == own.kv_heads};
    for (const std::uint64_t count :
         {std::uint64_t{variant.heads}, std::uint64_t{variant.kv_heads},
          std::uint64_t{alone.layers[0].attention.d_head}, count_parameters(alone).attention,
          flops.projections, flops.scores, flops.values, flops.output, flops.all, flops.all / 2,
          (flops.all - flops.values) / 2, count_pattern_memory(alone, length).layer,
          count_cache_bytes(alone)}) {
      row.push_back(cell(count));
    }
    rows.push_back(std::move(row));
  }
  return make_table("comparison",
                    {"variant", "own", "heads", "kv_heads", "d_head", "parameters", "projections", "scores",
                     "values", "output", "flops", "multiply_adds", "multiply_adds_one_product",
                     "pattern_bytes", "cache_bytes_per_token"},
                    std::move(rows));
}

}  // namespace attnctl
