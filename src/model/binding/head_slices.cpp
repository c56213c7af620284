#include "model/binding/head_slices.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "model/config/resolve.hpp"

namespace attnctl {
namespace {

/// How many slices of tied heads the query projection has: told by a tensor of rank 3, by /d_head or
/// /kv_heads, else as many as /head_slices uses.
std::size_t count_slices(const ShapeReader& reader, const ConfigReader& config, const TensorNames& names,
                         const LocatedTensor& query, std::span<const std::size_t> slices) {
  const Shape& shape = names.info(query).shape;
  if (shape.size() == 3) return shape[0];
  const auto d_head = config.size(std::vector<std::string>{"d_head"});
  if (d_head && shape.size() == 2) {
    const std::size_t outputs = reader.own_outputs(query, shape[query.axes == Axes::out_in ? 0 : 1]);
    return reader.divided(query, outputs, *d_head, "d_head");
  }
  const std::size_t used = *std::ranges::max_element(slices) + 1;
  return config.size(std::vector<std::string>{"kv_heads"}).value_or(used);
}

/// /head_slices: a number below largest_size for each head; empty where the key is missing.
std::vector<std::size_t> read_head_slices(const ConfigReader& config, std::size_t heads) {
  const auto value = config.find("head_slices");
  if (!value) return {};
  const std::string need = fmt::format("a list of {} numbers (/heads), the slice of each head", heads);
  if (!value->json->is_array() || value->json->size() != heads) config.refuse(*value, need);
  std::vector<std::size_t> slices;
  for (const auto& number : *value->json) {
    const bool fits = number.is_number_unsigned() && number.get<std::uint64_t>() < ConfigReader::largest_size;
    if (!fits) {
      config.refuse({fmt::format("head_slices/{}", slices.size()), &number},
                    "the number of a slice, 0 or more");
    }
    slices.push_back(number.get<std::size_t>());
  }
  return slices;
}

}  // namespace

void resolve_heads(const ShapeReader& reader, const ConfigReader& config, const TensorNames& names,
                   const LocatedTensor& query, AttentionConfig& attention) {
  const auto kv_heads = config.size(std::vector<std::string>{"kv_heads"});
  attention.head_slices = read_head_slices(config, attention.heads);
  if (attention.head_slices.empty()) {
    attention.kv_heads = kv_heads.value_or(attention.heads);
    if (attention.heads % attention.kv_heads != 0) {
      check_multiple(config, "heads", attention.heads, "kv_heads", attention.kv_heads);
    }
    return;
  }
  const std::size_t stored = count_slices(reader, config, names, query, attention.head_slices);
  if (kv_heads && *kv_heads != stored) {
    config.refuse(*config.find("kv_heads"),
                  fmt::format("{}, as many as there are slices of tied heads (/head_slices)", stored));
  }
  const auto list = config.find("head_slices");
  for (std::size_t i = 0; i < attention.heads; ++i) {
    if (attention.head_slices[i] < stored) continue;
    config.refuse({fmt::format("head_slices/{}", i), &list->json->at(i)},
                  fmt::format("a number below {}, the slices that are stored", stored));
  }
  attention.kv_heads = stored;
}

}  // namespace attnctl
