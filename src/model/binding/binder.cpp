#include "model/binding/binder.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace attnctl {
namespace {

constexpr std::size_t most_named = 8;

/// At most most_named of them.
std::string listed(const std::vector<std::string>& all, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), most_named); ++i) {
    text += fmt::format("{}{}", text.empty() ? "" : separator, all[i]);
  }
  if (all.size() > most_named) text += fmt::format(" and {} more", all.size() - most_named);
  return text;
}

/// The names with each `{what}` replaced.
std::vector<StoredTensor> replaced(std::span<const StoredTensor> names, std::string_view what,
                                   std::size_t number) {
  std::vector<StoredTensor> out(names.begin(), names.end());
  for (StoredTensor& tensor : out) {
    const std::size_t at = tensor.name.find(what);
    if (at != std::string::npos) tensor.name.replace(at, what.size(), std::to_string(number));
  }
  return out;
}

bool is_template(const StoredTensor& tensor, std::string_view what) {
  return tensor.name.find(what) != std::string::npos;
}

}  // namespace

void BindingFaults::missing(std::string name) {
  if (known_.insert(name).second) missing_.push_back(std::move(name));
}
void BindingFaults::wrong(std::string what) {
  if (known_.insert(what).second) wrong_.push_back(std::move(what));
}

void BindingFaults::report(std::string_view file, const std::string& config_file) const {
  if (missing_.empty() && wrong_.empty()) return;
  if (missing_.empty()) fail(Status::bad_input, "{}", listed(wrong_, "; "));
  fail(Status::bad_input, "{}: {} {} missing that {} needs: {}{}{}", escaped(file), missing_.size(),
       missing_.size() == 1 ? "tensor is" : "tensors are", escaped(config_file), listed(missing_, ", "),
       wrong_.empty() ? "" : "; ", listed(wrong_, "; "));
}

ProjectionOutputs outputs_alone(std::size_t count) {
  return {.heads = 1, .each = count};
}

Slices ProjectionOutputs::slices(Packing packing) const {
  if (attention != nullptr && packing != Packing::whole) return attention_slices(packing, part, *attention);
  return mlp_slices(packing, part, count());
}

TensorBinder::TensorBinder(const FamilySpec& family, const ModelConfig& config, const Checkpoint& weights,
                           std::string config_file)
    : family_(family), names_(family, weights, config.layers.size()), config_file_(std::move(config_file)) {
  bound_.used.resize(weights.tensors().size());
}

std::optional<LocatedTensor> TensorBinder::find(std::span<const StoredTensor> names) const {
  if (scope.place == NameScope::Place::absolute) return names_.find_absolute(names);
  if (scope.place == NameScope::Place::layer) return names_.find_in_layer(names, scope.layer);
  return names_.find_outside_layers(names);
}

/// Found, or noted as missing.
std::optional<LocatedTensor> TensorBinder::need(std::span<const StoredTensor> names) {
  const auto found = find(names);
  if (found) {
    use(*found);
    note_alternatives(names, found->index);
    return found;
  }
  const std::string& name = names.front().name;
  faults_.missing(scope.place == NameScope::Place::absolute ? name
                  : scope.place == NameScope::Place::layer  ? names_.in_layer(name, scope.layer)
                                                            : names_.outside_layers(name));
  return std::nullopt;
}

/// What else is stored under these names.
void TensorBinder::note_alternatives(std::span<const StoredTensor> names, std::size_t bound) {
  for (const StoredTensor& name : names) {
    const auto other = find({&name, 1});
    if (other && other->index != bound) bound_.alternatives.push_back({other->index, bound});
  }
}

void TensorBinder::use(const LocatedTensor& tensor) {
  bound_.used[tensor.index] = true;
  const TensorInfo& info = names_.info(tensor);
  if (is_floating(info.dtype)) return;
  faults_.wrong(fmt::format("{}: tensor \"{}\": got dtype {}, need F64, F32, F16 or BF16", info.file,
                            escaped(info.name), name_of(info.dtype)));
}

void TensorBinder::expect_shape(const LocatedTensor& tensor, const Shape& need) {
  const TensorInfo& info = names_.info(tensor);
  if (info.shape == need) return;
  faults_.wrong(fmt::format("{}: tensor \"{}\": got shape {}, need {} ({} by {}{})", info.file,
                            escaped(info.name), to_string(info.shape), to_string(need), because,
                            escaped(config_file_),
                            family_.sizes == SizesFrom::tensors ? " and the first layer's projections" : ""));
}

BoundLinear TensorBinder::linear(const LinearSpec& spec, LinearParts parts, std::size_t in,
                                 const ProjectionOutputs& out, bool heads_inward) {
  BoundLinear bound;
  if (parts.weight && parts.rank > 0) {
    bound.first = matrix({&spec.factors.first.value(), 1}, in, outputs_alone(parts.rank), heads_inward);
    bound.weight = matrix({&spec.factors.last.value(), 1}, parts.rank, out, false);
  } else if (parts.weight) {
    bound.weight = matrix(spec.weight, in, out, heads_inward);
  }
  if (parts.bias) bound.bias = bias(spec.bias, out);
  return bound;
}

BoundLinear TensorBinder::kernel(const LinearSpec& spec, std::size_t in, std::size_t kernel,
                                 std::size_t outputs) {
  BoundLinear bound;
  if (const auto found = need(spec.weight)) {
    expect_shape(*found, {outputs, in, kernel});
    bound.weight = {
        .tensor = found->index, .axes = Axes::out_in, .in = in * kernel, .outputs = whole(outputs)};
  }
  bound.bias = bias(spec.bias, outputs_alone(outputs));
  return bound;
}

BoundMatrix TensorBinder::matrix(std::span<const StoredTensor> names, std::size_t in,
                                 const ProjectionOutputs& out, bool heads_inward) {
  const auto found = need(names);
  if (!found) return {};
  const std::size_t unit = heads_unit(found->packing);
  if (out.heads % unit != 0) {
    faults_.wrong(fmt::format("{}: {} heads, and \"{}\" is stored in {} parts of as many each",
                              escaped(config_file_), out.heads, escaped(names_.info(*found).name), unit));
    return {};
  }
  BoundMatrix bound = {
      .tensor = found->index, .axes = found->axes, .in = in, .outputs = out.slices(found->packing)};
  const std::size_t stored_out = bound.outputs.all;
  if (found->axes == Axes::out_in) {
    expect_shape(*found, {stored_out, in});
  } else if (found->axes == Axes::in_out_or_head && names_.info(*found).shape.size() == 3) {
    expect_shape(*found,
                 heads_inward ? Shape{heads, in / heads, stored_out} : Shape{out.heads, in, out.each});
    if (!heads_inward) bound.heads = out.heads;
  } else {
    expect_shape(*found, {in, stored_out});
  }
  return bound;
}

BoundVector TensorBinder::bias(std::span<const StoredTensor> names, const ProjectionOutputs& out) {
  const auto found = need(names);
  if (!found) return {};
  const Slices slices = out.slices(found->packing);
  if (found->axes == Axes::in_out_or_head && names_.info(*found).shape.size() == 2) {
    expect_shape(*found, {out.heads, out.each});
  } else {
    expect_shape(*found, {slices.all});
  }
  return {.tensor = found->index, .elements = slices};
}

std::vector<BoundLinear> TensorBinder::expert_linears(const LinearSpec& spec, LinearParts parts,
                                                      std::size_t in, const ProjectionOutputs& out,
                                                      std::size_t experts) {
  constexpr std::string_view mark = "{expert}";
  std::vector<StoredTensor> one_each, stacked;
  std::ranges::copy_if(spec.weight, std::back_inserter(one_each),
                       [&](const StoredTensor& name) { return is_template(name, mark); });
  std::ranges::copy_if(spec.weight, std::back_inserter(stacked),
                       [&](const StoredTensor& name) { return !is_template(name, mark); });
  std::vector<BoundLinear> bound(experts);
  if (!one_each.empty() && (stacked.empty() || !find(stacked))) {
    for (std::size_t e = 0; e < experts; ++e)
      bound[e].weight = matrix(replaced(one_each, mark, e), in, out, false);
    return bound;
  }
  const auto weight = need(stacked);
  if (!weight) return bound;
  BoundMatrix all = {
      .tensor = weight->index, .axes = weight->axes, .in = in, .outputs = out.slices(weight->packing)};
  const std::size_t stored_out = all.outputs.all;
  expect_shape(*weight, weight->axes == Axes::out_in ? Shape{experts, stored_out, in}
                                                     : Shape{experts, in, stored_out});
  std::optional<LocatedTensor> bias;
  if (parts.bias && (bias = need(spec.bias))) expect_shape(*bias, {experts, out.slices(bias->packing).all});
  for (std::size_t e = 0; e < experts; ++e) {
    bound[e].weight = all;
    bound[e].weight.expert = e;
    if (bias) bound[e].bias = {bias->index, out.slices(bias->packing), e};
  }
  return bound;
}

BoundVector TensorBinder::vector(std::span<const StoredTensor> names, std::size_t width) {
  const auto found = need(names);
  if (!found) return {};
  expect_shape(*found, {width});
  return {.tensor = found->index, .elements = whole(width)};
}

std::vector<BoundVector> TensorBinder::vectors(const std::vector<std::string>& names, std::size_t width,
                                               std::optional<std::size_t> copies) {
  constexpr std::string_view mark = "{head}";
  const std::vector<StoredTensor> tensors = stored(names);
  if (names.empty()) return {};
  std::vector<BoundVector> bound;
  if (copies && is_template(tensors.front(), mark)) {
    for (std::size_t head = 0; head < *copies; ++head)
      bound.push_back(vector(replaced(tensors, mark, head), width));
    return bound;
  }
  if (!copies) return {vector(tensors, width)};
  const auto found = need(tensors);
  if (!found) return {};
  expect_shape(*found, {*copies, width});
  return {{.tensor = found->index, .elements = whole(*copies * width)}};
}

BoundNorm TensorBinder::norm(const NormSpec& spec, NormKind kind, std::size_t width,
                             std::optional<std::size_t> copies) {
  if (kind == NormKind::none) return {};
  return {vectors(spec.gain, width, copies), vectors(spec.bias, width, copies), family_.gain_offset};
}

BoundVector TensorBinder::rows(const std::vector<std::string>& names, std::size_t rows, std::size_t width) {
  const auto found = need(stored(names));
  if (!found) return {};
  expect_shape(*found, {rows, width});
  return {.tensor = found->index, .elements = whole(rows * width)};
}

std::size_t TensorBinder::table(const std::vector<std::string>& names, std::size_t rows, std::size_t width) {
  const auto found = need(stored(names));
  if (!found) return no_tensor;
  expect_shape(*found, family_.embedding.class_token.empty() ? Shape{rows, width} : Shape{1, rows, width});
  return found->index;
}

BoundLinear TensorBinder::convolution(const LinearSpec& spec, const PatchGrid& grid, std::size_t out) {
  BoundLinear bound;
  if (const auto found = need(spec.weight)) {
    expect_shape(*found, {out, grid.channels, grid.patch_height, grid.patch_width});
    bound.weight = {
        .tensor = found->index, .axes = Axes::out_in, .in = grid.patch_size(), .outputs = whole(out)};
  }
  bound.bias = bias(spec.bias, outputs_alone(out));
  return bound;
}

}  // namespace attnctl
