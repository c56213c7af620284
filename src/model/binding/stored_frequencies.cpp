#include "base/error.hpp"
#include "model/binding/tensor_names.hpp"
#include "model/config/resolve.hpp"

namespace attnctl {

void use_stored_frequencies(const FamilySpec& family, Checkpoint& weights, ModelConfig& model) {
  if (!family.rotary || family.rotary->stored.empty()) return;
  const TensorNames names(family, weights, model.layers.size());
  const auto found = names.find_outside_layers(stored(family.rotary->stored));
  if (!found) return;
  const TensorInfo& info = names.info(*found);
  RotaryConfig rotary = *model.layers.front().attention.rotary;
  const Shape need = {rotary.dims / 2};
  if (info.shape != need || !is_floating(info.dtype)) {
    fail(Status::bad_input, "{}: tensor \"{}\": got {} of shape {}, need rotary frequencies of shape {}",
         info.file, escaped(info.name), name_of(info.dtype), to_string(info.shape), to_string(need));
  }
  const TensorView view = weights.tensor(found->index);
  convert(view.dtype, view.bytes, std::span(rotary.inverse_frequency));
  const auto shared = std::make_shared<const RotaryConfig>(std::move(rotary));
  for (LayerConfig& layer : model.layers) layer.attention.rotary = shared;
}

}  // namespace attnctl
