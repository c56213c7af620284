#include <cstddef>
#include <memory>
#include <utility>

#include "support/mutations.hpp"

namespace attnctl::test {
namespace {

/// Returns a mutation of the rotary position of queries and keys.
Mutation in_rotary(std::string name, std::function<bool(RotaryConfig&)> change) {
  return in_attention(std::move(name), [change = std::move(change)](AttentionConfig& attention) {
    if (!attention.rotary) return false;
    RotaryConfig rotary = *attention.rotary;
    if (!change(rotary)) return false;
    attention.rotary = std::make_shared<const RotaryConfig>(std::move(rotary));
    return true;
  });
}

Mutation in_alibi(std::string name, std::function<bool(AlibiConfig&)> change) {
  return in_attention(std::move(name), [change = std::move(change)](AttentionConfig& attention) {
    if (!attention.alibi) return false;
    AlibiConfig alibi = *attention.alibi;
    if (!change(alibi)) return false;
    attention.alibi = std::make_shared<const AlibiConfig>(std::move(alibi));
    return true;
  });
}

}  // namespace

std::vector<Mutation> attention_mutations() {
  return {
      in_attention("scale",
                   [](AttentionConfig& a) {
                     a.scale *= 1.3;
                     return true;
                   }),
      in_attention("causal",
                   [](AttentionConfig& a) {
                     a.causal = !a.causal;
                     return true;
                   }),
      in_attention("window",
                   [](AttentionConfig& a) {
                     if (a.kind.rule != AttentionKind::Rule::window) return false;
                     ++a.kind.size;
                     return true;
                   }),
      in_attention("window of some layers",
                   [](AttentionConfig& a) {
                     if (a.kind.rule != AttentionKind::Rule::window) return false;
                     a.kind = {};
                     return true;
                   }),
      in_attention("a window where there is none",
                   [](AttentionConfig& a) {
                     if (a.kind.rule != AttentionKind::Rule::full) return false;
                     a.kind = {AttentionKind::Rule::window, 2};
                     return true;
                   }),
      in_attention("clip",
                   [](AttentionConfig& a) {
                     a.clip = a.clip > 0 ? 0 : 0.1F;
                     return true;
                   }),
      in_attention("soft cap",
                   [](AttentionConfig& a) {
                     a.soft_cap = a.soft_cap > 0 ? 0 : 1;
                     return true;
                   }),
      in_attention("sinks", [](AttentionConfig& a) { return std::exchange(a.sinks, false); }),
      in_attention("query and key norm", [](AttentionConfig& a) { return remove_norm(a.head_norm); }),
      in_attention("kind of query and key norm", [](AttentionConfig& a) { return flip_kind(a.head_norm); }),
      in_attention("span of query and key norm",
                   [](AttentionConfig& a) {
                     if (a.head_norm.kind == NormKind::none) return false;
                     a.head_norm_span =
                         a.head_norm_span == HeadNormSpan::shared ? HeadNormSpan::each : HeadNormSpan::shared;
                     return true;
                   }),
      in_attention("rotary position",
                   [](AttentionConfig& a) { return std::exchange(a.rotary, {}) != nullptr; }),
      in_rotary("rotary pairing",
                [](RotaryConfig& r) {
                  r.pairing =
                      r.pairing == RotaryPairing::half ? RotaryPairing::interleaved : RotaryPairing::half;
                  return r.dims > 2;  // a single pair is the same in both pairings
                }),
      in_rotary("rotary frequencies",
                [](RotaryConfig& r) {
                  for (float& inverse : r.inverse_frequency) inverse *= 1.3F;
                  for (float& inverse : r.long_inverse_frequency) inverse *= 1.3F;
                  return true;
                }),
      in_rotary("rotary attention factor", [](RotaryConfig& r) { return grow(r.attention_factor); }),
      in_rotary("rotary part",
                [](RotaryConfig& r) {
                  if (r.dims < 4) return false;
                  r.dims -= 2;
                  r.inverse_frequency.pop_back();
                  if (!r.long_inverse_frequency.empty()) r.long_inverse_frequency.pop_back();
                  return true;
                }),
      in_attention("ALiBi", [](AttentionConfig& a) { return std::exchange(a.alibi, {}) != nullptr; }),
      in_alibi("ALiBi slopes",
               [](AlibiConfig& a) {
                 for (float& slope : a.slopes) slope *= 1.3F;
                 return true;
               }),
      in_alibi("ALiBi rounding",
               [](AlibiConfig& a) {
                 a.rounded = !a.rounded;
                 return true;
               }),
      in_alibi("ALiBi origin",
               [](AlibiConfig& a) {
                 a.from_last = !a.from_last;
                 return true;
               }),
      in_attention("relative buckets",
                   [](AttentionConfig& a) { return std::exchange(a.relative_buckets, {}) != nullptr; }),
  };
}

}  // namespace attnctl::test
