#include <cstddef>
#include <memory>
#include <utility>

#include "support/mutations.hpp"

namespace attnctl::test {
namespace {

/// Returns a mutation of the rotary position of queries and keys.
Mutation in_rotary(std::string name, std::function<bool(model::RotaryConfig&)> change) {
  return in_attention(std::move(name), [change = std::move(change)](model::AttentionConfig& attention) {
    if (!attention.rotary) return false;
    model::RotaryConfig rotary = *attention.rotary;
    if (!change(rotary)) return false;
    attention.rotary = std::make_shared<const model::RotaryConfig>(std::move(rotary));
    return true;
  });
}

Mutation in_alibi(std::string name, std::function<bool(model::AlibiConfig&)> change) {
  return in_attention(std::move(name), [change = std::move(change)](model::AttentionConfig& attention) {
    if (!attention.alibi) return false;
    model::AlibiConfig alibi = *attention.alibi;
    if (!change(alibi)) return false;
    attention.alibi = std::make_shared<const model::AlibiConfig>(std::move(alibi));
    return true;
  });
}

}  // namespace

std::vector<Mutation> attention_mutations() {
  return {
      in_attention("scale",
                   [](model::AttentionConfig& a) {
                     a.scale *= 1.3;
                     return true;
                   }),
      in_attention("causal",
                   [](model::AttentionConfig& a) {
                     a.causal = !a.causal;
                     return true;
                   }),
      in_attention("window",
                   [](model::AttentionConfig& a) {
                     if (a.kind.rule != model::AttentionKind::Rule::window) return false;
                     ++a.kind.size;
                     return true;
                   }),
      in_attention("window of some layers",
                   [](model::AttentionConfig& a) {
                     if (a.kind.rule != model::AttentionKind::Rule::window) return false;
                     a.kind = {};
                     return true;
                   }),
      in_attention("a window where there is none",
                   [](model::AttentionConfig& a) {
                     if (a.kind.rule != model::AttentionKind::Rule::full) return false;
                     a.kind = {model::AttentionKind::Rule::window, 2};
                     return true;
                   }),
      in_attention("clip",
                   [](model::AttentionConfig& a) {
                     a.clip = a.clip > 0 ? 0 : 0.1F;
                     return true;
                   }),
      in_attention("soft cap",
                   [](model::AttentionConfig& a) {
                     a.soft_cap = a.soft_cap > 0 ? 0 : 1;
                     return true;
                   }),
      in_attention("sinks", [](model::AttentionConfig& a) { return std::exchange(a.sinks, false); }),
      in_attention("query and key norm", [](model::AttentionConfig& a) { return remove_norm(a.head_norm); }),
      in_attention("kind of query and key norm",
                   [](model::AttentionConfig& a) { return flip_kind(a.head_norm); }),
      in_attention("span of query and key norm",
                   [](model::AttentionConfig& a) {
                     if (a.head_norm.kind == model::NormKind::none) return false;
                     a.head_norm_span = a.head_norm_span == model::HeadNormSpan::shared
                                            ? model::HeadNormSpan::each
                                            : model::HeadNormSpan::shared;
                     return true;
                   }),
      in_attention("rotary position",
                   [](model::AttentionConfig& a) { return std::exchange(a.rotary, {}) != nullptr; }),
      in_rotary("rotary pairing",
                [](model::RotaryConfig& r) {
                  r.pairing = r.pairing == model::RotaryPairing::half ? model::RotaryPairing::interleaved
                                                                      : model::RotaryPairing::half;
                  return r.dims > 2;  // a single pair is the same in both pairings
                }),
      in_rotary("rotary frequencies",
                [](model::RotaryConfig& r) {
                  for (float& inverse : r.inverse_frequency) inverse *= 1.3F;
                  for (float& inverse : r.long_inverse_frequency) inverse *= 1.3F;
                  return true;
                }),
      in_rotary("rotary attention factor", [](model::RotaryConfig& r) { return grow(r.attention_factor); }),
      in_rotary("rotary part",
                [](model::RotaryConfig& r) {
                  if (r.dims < 4) return false;
                  r.dims -= 2;
                  r.inverse_frequency.pop_back();
                  if (!r.long_inverse_frequency.empty()) r.long_inverse_frequency.pop_back();
                  return true;
                }),
      in_attention("ALiBi", [](model::AttentionConfig& a) { return std::exchange(a.alibi, {}) != nullptr; }),
      in_alibi("ALiBi slopes",
               [](model::AlibiConfig& a) {
                 for (float& slope : a.slopes) slope *= 1.3F;
                 return true;
               }),
      in_alibi("ALiBi rounding",
               [](model::AlibiConfig& a) {
                 a.rounded = !a.rounded;
                 return true;
               }),
      in_alibi("ALiBi origin",
               [](model::AlibiConfig& a) {
                 a.from_last = !a.from_last;
                 return true;
               }),
      in_attention(
          "relative buckets",
          [](model::AttentionConfig& a) { return std::exchange(a.relative_buckets, {}) != nullptr; }),
  };
}

}  // namespace attnctl::test
