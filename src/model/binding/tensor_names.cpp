#include "model/binding/tensor_names.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace attnctl::model {
namespace {

/// Replaces the `{}` in a name by a number.
std::string with_number(const std::string& name, std::size_t number) {
  return fmt::format(fmt::runtime(name), number);
}

/// Returns how many names of one layer exist in a checkpoint with this prefix.
std::size_t count_stored_names(const LayerSpec& layer, const checkpoint::Checkpoint& weights,
                               const std::string& prefix) {
  std::size_t count = 0;
  for (const LinearSpec* spec :
       {&layer.query, &layer.key, &layer.value, &layer.output, &layer.up, &layer.down}) {
    for (const StoredTensor& tensor : spec->weight) {
      if (weights.find(prefix + tensor.name) != checkpoint::Checkpoint::npos) ++count;
    }
    for (const auto& factor : {spec->factors.first, spec->factors.last}) {
      if (factor && weights.find(prefix + factor->name) != checkpoint::Checkpoint::npos) ++count;
    }
  }
  return count;
}

[[noreturn]] void reject_both(const checkpoint::TensorInfo& one, const std::string& other) {
  fail(Status::bad_input, "{}: tensors \"{}\" and \"{}\" are the same projection; need one of them", one.file,
       escaped(one.name), escaped(other));
}

}  // namespace

TensorNames::TensorNames(const FamilySpec& family, const checkpoint::Checkpoint& weights, std::size_t layers)
    : weights_(&weights), one_name_each_(family.one_name_each) {
  std::size_t best = 0;
  bool first = true;
  for (const std::string& prefix : family.prefixes) {
    for (const std::string& layer_prefix : family.stack.prefixes) {
      if (layers > 1 && layer_prefix.find("{}") == std::string::npos) continue;
      const std::size_t count =
          count_stored_names(family.stack.layer, weights, prefix + with_number(layer_prefix, 0));
      if (!first && count <= best) continue;
      first = false;
      best = count;
      prefix_ = prefix;
      layer_prefix_ = layer_prefix;
    }
  }
  headless_ = prefix_ != family.prefixes.front();
  if (family.decoder) decoder_prefix_ = family.decoder->prefix;
}

std::string TensorNames::in_layer(const LayerConfig::Key& layer) const {
  const bool of_decoder = layer.component == Component::decoder || layer.component == Component::cross;
  return prefix_ + with_number(of_decoder ? decoder_prefix_ : layer_prefix_, layer.number);
}

std::optional<LocatedTensor> TensorNames::find_outside_layers(const std::vector<std::string>& names) const {
  return find(stored(names), prefix_);
}

std::optional<LocatedTensor> TensorNames::find(std::span<const StoredTensor> names,
                                               const std::string& prefix) const {
  std::optional<LocatedTensor> found;
  for (const StoredTensor& tensor : names) {
    const std::size_t index = weights_->find(prefix + tensor.name);
    if (index == checkpoint::Checkpoint::npos) continue;
    if (found) reject_both(info(*found), prefix + tensor.name);
    found = LocatedTensor{index, tensor.axes, tensor.packing};
    if (!one_name_each_) break;
  }
  return found;
}

LocatedWeight TensorNames::find_weight(const LinearSpec& spec, const std::string& prefix) const {
  LocatedWeight located;
  located.whole = find(spec.weight, prefix);
  if (!spec.factors.first) return located;
  const StoredTensor& first = spec.factors.first.value();
  const StoredTensor& last = spec.factors.last.value();
  located.first = find({&first, 1}, prefix);
  located.last = find({&last, 1}, prefix);
  if (!located.first && !located.last) return located;
  const checkpoint::TensorInfo& factor = info(located.first ? *located.first : *located.last);
  if (located.whole) reject_both(info(*located.whole), factor.name);
  if (!located.first || !located.last) {
    fail(Status::bad_input, "{}: tensor \"{}\" is one factor of a projection; need \"{}\" too", factor.file,
         escaped(factor.name), escaped(prefix + (located.first ? last.name : first.name)));
  }
  return located;
}

bool same_values(checkpoint::Checkpoint& weights, std::size_t a, std::size_t b) {
  const checkpoint::TensorInfo& first = weights.tensors()[a];
  const checkpoint::TensorInfo& second = weights.tensors()[b];
  if (first.dtype != second.dtype || first.shape != second.shape) return false;
  const bool same = std::ranges::equal(weights.tensor(a).bytes, weights.tensor(b).bytes);
  weights.release(a);
  weights.release(b);
  return same;
}

std::vector<StoredTensor> stored(const std::vector<std::string>& names) {
  std::vector<StoredTensor> tensors;
  tensors.reserve(names.size());
  for (const std::string& name : names) tensors.push_back({name});
  return tensors;
}

}  // namespace attnctl::model
