#include "model/binding/tensor_names.hpp"

#include <algorithm>
#include <cstddef>

#include "base/error.hpp"

namespace attnctl::model {
namespace {

/// Replaces the `{}` in a name by a number.
std::string with_number(const std::string& name, std::size_t number) {
  return fmt::format(fmt::runtime(name), number);
}

/// Returns how many weights of the linear maps of a layer (query, key, value, output, MLP up and down; whole
/// or as factors) the checkpoint contains under this prefix. Norms and biases are not counted.
std::ptrdiff_t count_stored_names(const LayerSpec& layer, const checkpoint::Checkpoint& weights,
                                  const std::string& prefix) {
  std::ptrdiff_t count = 0;
  for (const LinearSpec* spec :
       {&layer.query, &layer.key, &layer.value, &layer.output, &layer.mlp.up, &layer.mlp.down}) {
    for (const auto* names : {&spec->weight, &spec->factors}) {
      count += std::ranges::count_if(*names, [&](const StoredTensor& tensor) {
        return weights.find(prefix + tensor.name) != checkpoint::Checkpoint::npos;
      });
    }
  }
  return count;
}

[[noreturn]] void reject_both(const checkpoint::TensorInfo& one, const std::string& other) {
  fail(Status::bad_input, "{}: tensors \"{}\" and \"{}\" are alternatives; need only one of them", one.file,
       escaped(one.name), escaped(other));
}

}  // namespace

TensorNames::TensorNames(const FamilySpec& family, const checkpoint::Checkpoint& weights, std::size_t layers)
    : weights_(&weights), one_name_each_(family.sizes_from_tensors) {
  std::ptrdiff_t best = -1;
  for (const std::string& prefix : family.prefixes) {
    for (const std::string& layer_prefix : family.stack.prefixes) {
      if (layers > 1 && layer_prefix.find("{}") == std::string::npos) continue;
      const std::ptrdiff_t count =
          count_stored_names(family.stack.layer, weights, prefix + with_number(layer_prefix, 0));
      if (count <= best) continue;
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
  const auto whole = find(spec.weight, prefix);
  LocatedWeight factors;
  std::string missing;
  for (const StoredTensor& factor : spec.factors) {
    const auto found = find({&factor, 1}, prefix);
    if (found) factors.push_back(*found);
    if (!found) missing = prefix + factor.name;
  }
  if (factors.empty()) return whole ? LocatedWeight{*whole} : LocatedWeight{};
  const checkpoint::TensorInfo& factor = info(factors.front());
  if (whole) reject_both(info(*whole), factor.name);
  if (!missing.empty()) {
    fail(Status::bad_input, "{}: tensor \"{}\" is one factor of a projection; need \"{}\" too", factor.file,
         escaped(factor.name), escaped(missing));
  }
  return factors;
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
