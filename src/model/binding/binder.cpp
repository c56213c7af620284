#include "model/binding/binder.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include <fmt/ranges.h>

#include "base/error.hpp"

namespace attnctl {
namespace {

constexpr std::string_view kExpertMark = "{expert}";
constexpr std::string_view kHeadMark = "{head}";

/// Joins the first 8 entries, and counts the rest.
std::string join_first(const std::vector<std::string>& all, std::string_view separator) {
  constexpr std::size_t shown = 8;
  const auto first = std::span(all).first(std::min(all.size(), shown));
  return fmt::format("{}{}", fmt::join(first, separator),
                     all.size() > shown ? fmt::format(" and {} more", all.size() - shown) : "");
}

bool has_mark(const StoredTensor& tensor, std::string_view mark) {
  return tensor.name.find(mark) != std::string::npos;
}

/// Returns the names with the mark replaced by a number.
std::vector<StoredTensor> numbered(std::span<const StoredTensor> names, std::string_view mark,
                                   std::size_t number) {
  std::vector<StoredTensor> out(names.begin(), names.end());
  for (StoredTensor& tensor : out) {
    const std::size_t at = tensor.name.find(mark);
    if (at != std::string::npos) tensor.name.replace(at, mark.size(), std::to_string(number));
  }
  return out;
}

/// Returns slice `index` of three that repeat `groups` times, with these widths in stored order.
Slices one_of_three(std::size_t groups, const std::array<std::size_t, 3>& widths, std::size_t index) {
  const std::size_t stride = widths[0] + widths[1] + widths[2];
  const std::size_t first = index == 0 ? 0 : index == 1 ? widths[0] : widths[0] + widths[1];
  return {.first = first, .groups = groups, .each = widths[index], .stride = stride, .all = groups * stride};
}

Slices attention_slices(Packing packing, PackedPart part, const AttentionConfig& attention) {
  const std::size_t k = attention.d_head;
  const std::size_t v = attention.d_value;
  const std::size_t index = part == PackedPart::query ? 0 : part == PackedPart::key ? 1 : 2;
  switch (packing) {
    case Packing::by_head:
      return one_of_three(attention.heads, {k, k, v}, index);
    case Packing::by_key_head:
      return one_of_three(attention.kv_heads, {attention.heads / attention.kv_heads * k, k, v}, index);
    case Packing::in_four_blocks: {
      const std::size_t quarter = attention.heads / 4 * k;
      constexpr std::array<std::size_t, 3> order = {0, 2, 1};  // q, v, k
      return one_of_three(4, {quarter, quarter, quarter}, order[index]);
    }
    default:
      return one_of_three(1, {attention.query_slices() * k, attention.kv_heads * k, attention.kv_heads * v},
                          index);
  }
}

Slices gated_slices(Packing packing, PackedPart part, std::size_t width) {
  const std::size_t index = part == PackedPart::gate ? 0 : 1;
  if (packing == Packing::gate_up_by_turns)
    return {.first = index, .groups = width, .each = 1, .stride = 2, .all = 2 * width};
  return {.first = index * width, .groups = 1, .each = width, .stride = width, .all = 2 * width};
}

}  // namespace

void BindingFaults::add_missing(const std::string& name) {
  if (known_.insert(name).second) missing_.push_back(name);
}
void BindingFaults::add(const std::string& fault) {
  if (known_.insert(fault).second) other_.push_back(fault);
}

void BindingFaults::report(std::string_view file, const std::string& config_file) const {
  if (missing_.empty() && other_.empty()) return;
  if (missing_.empty()) fail(Status::bad_input, "{}", join_first(other_, "; "));
  fail(Status::bad_input, "{}: {} {} missing that {} needs: {}{}{}", escaped(file), missing_.size(),
       missing_.size() == 1 ? "tensor is" : "tensors are", escaped(config_file), join_first(missing_, ", "),
       other_.empty() ? "" : "; ", join_first(other_, "; "));
}

Slices ProjectionOutputs::slices(Packing packing) const {
  const bool gated = packing == Packing::gate_up || packing == Packing::gate_up_by_turns;
  if (gated) return gated_slices(packing, part, count());
  if (attention != nullptr && packing != Packing::whole) return attention_slices(packing, part, *attention);
  return Slices::whole(count());
}

TensorBinder::TensorBinder(const FamilySpec& family, const ModelConfig& config, const Checkpoint& weights,
                           std::string config_file)
    : family_(family),
      config_(config),
      names_(family, weights, config.layers.size()),
      config_file_(std::move(config_file)) {
  bound_.used.resize(weights.tensors().size());
}

std::optional<LocatedTensor> TensorBinder::find(std::span<const StoredTensor> names) const {
  if (scope.place == NameScope::Place::absolute) return names_.find_absolute(names);
  if (scope.place == NameScope::Place::layer) return names_.find_in_layer(names, scope.layer);
  return names_.find_outside_layers(names);
}

/// Returns the tensor, marked as used, with the other stored alternatives recorded. Adds a fault if it is
/// missing or not floating-point.
std::optional<LocatedTensor> TensorBinder::need(std::span<const StoredTensor> names) {
  const auto found = find(names);
  if (!found) {
    const std::string& name = names.front().name;
    faults_.add_missing(scope.place == NameScope::Place::absolute ? name
                        : scope.place == NameScope::Place::layer  ? names_.in_layer(name, scope.layer)
                                                                  : names_.outside_layers(name));
    return std::nullopt;
  }
  bound_.used[found->index] = true;
  const TensorInfo& info = names_.info(*found);
  if (!is_floating(info.dtype)) {
    faults_.add(fmt::format("{}: tensor \"{}\": got dtype {}, need F64, F32, F16 or BF16", info.file,
                            escaped(info.name), name_of(info.dtype)));
  }
  for (const StoredTensor& name : names) {
    const auto other = find({&name, 1});
    if (other && other->index != found->index) bound_.alternatives.push_back({other->index, found->index});
  }
  return found;
}

void TensorBinder::expect_shape(const LocatedTensor& tensor, const Shape& expected) {
  const TensorInfo& info = names_.info(tensor);
  if (info.shape == expected) return;
  faults_.add(fmt::format("{}: tensor \"{}\": got shape {}, need {} ({} by {}{})", info.file,
                          escaped(info.name), to_string(info.shape), to_string(expected), shape_origin,
                          escaped(config_file_),
                          family_.sizes == SizesFrom::tensors ? " and the first layer's projections" : ""));
}

BoundLinear TensorBinder::linear(const LinearSpec& spec, LinearParts parts, std::size_t in,
                                 const ProjectionOutputs& out, bool heads_are_inputs) {
  BoundLinear bound;
  if (parts.weight && parts.rank > 0) {
    bound.first = matrix({&spec.factors.first.value(), 1}, in, ProjectionOutputs::unpacked(parts.rank),
                         heads_are_inputs);
    bound.weight = matrix({&spec.factors.last.value(), 1}, parts.rank, out, false);
  } else if (parts.weight) {
    bound.weight = matrix(spec.weight, in, out, heads_are_inputs);
  }
  if (parts.bias) bound.bias = bias(spec.bias, out);
  return bound;
}

BoundLinear TensorBinder::convolution(const LinearSpec& spec, const Shape& shape) {
  BoundLinear bound;
  if (const auto found = need(spec.weight)) {
    expect_shape(*found, shape);
    bound.weight.tensor = found->index;
    bound.weight.in = std::accumulate(shape.begin() + 1, shape.end(), std::size_t{1}, std::multiplies<>());
    bound.weight.outputs = Slices::whole(shape.front());
  }
  bound.bias = bias(spec.bias, ProjectionOutputs::unpacked(shape.front()));
  return bound;
}

BoundMatrix TensorBinder::matrix(std::span<const StoredTensor> names, std::size_t in,
                                 const ProjectionOutputs& out, bool heads_are_inputs) {
  const auto found = need(names);
  if (!found) return {};
  if (found->packing == Packing::in_four_blocks && out.heads % 4 != 0) {
    faults_.add(fmt::format("{}: got {} heads, need a multiple of 4, because \"{}\" stores them in 4 blocks",
                            escaped(config_file_), out.heads, escaped(names_.info(*found).name)));
    return {};
  }
  BoundMatrix bound = {
      .tensor = found->index, .axes = found->axes, .in = in, .outputs = out.slices(found->packing)};
  const std::size_t stored_out = bound.outputs.all;
  if (found->axes == Axes::out_in) {
    expect_shape(*found, {stored_out, in});
  } else if (found->axes == Axes::in_out_or_head && names_.info(*found).shape.size() == 3) {
    expect_shape(*found,
                 heads_are_inputs ? Shape{heads, in / heads, stored_out} : Shape{out.heads, in, out.each});
    if (!heads_are_inputs) bound.heads = out.heads;
  } else {
    expect_shape(*found, {in, stored_out});
  }
  return bound;
}

BoundVector TensorBinder::bias(std::span<const StoredTensor> names, const ProjectionOutputs& out) {
  const auto found = need(names);
  if (!found) return {};
  const Slices slices = out.slices(found->packing);
  const bool by_head = found->axes == Axes::in_out_or_head && names_.info(*found).shape.size() == 2;
  expect_shape(*found, by_head ? Shape{out.heads, out.each} : Shape{slices.all});
  return {.tensor = found->index, .elements = slices};
}

std::vector<BoundLinear> TensorBinder::expert_linears(const LinearSpec& spec, LinearParts parts,
                                                      std::size_t in, const ProjectionOutputs& out,
                                                      std::size_t experts) {
  std::vector<StoredTensor> one_each, stacked;
  std::ranges::partition_copy(spec.weight, std::back_inserter(one_each), std::back_inserter(stacked),
                              [&](const StoredTensor& name) { return has_mark(name, kExpertMark); });
  std::vector<BoundLinear> bound(experts);
  if (!one_each.empty() && (stacked.empty() || !find(stacked))) {
    for (std::size_t e = 0; e < experts; ++e)
      bound[e].weight = matrix(numbered(one_each, kExpertMark, e), in, out, false);
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
  return {.tensor = found->index, .elements = Slices::whole(width)};
}

std::vector<BoundVector> TensorBinder::vectors(const std::vector<std::string>& names, std::size_t width,
                                               std::optional<std::size_t> copies) {
  if (names.empty()) return {};
  const std::vector<StoredTensor> tensors = stored(names);
  if (!copies) return {vector(tensors, width)};
  if (!has_mark(tensors.front(), kHeadMark)) return {rows(names, *copies, width)};
  std::vector<BoundVector> bound;
  for (std::size_t head = 0; head < *copies; ++head)
    bound.push_back(vector(numbered(tensors, kHeadMark, head), width));
  return bound;
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
  return {.tensor = found->index, .elements = Slices::whole(rows * width)};
}

std::size_t TensorBinder::table(const std::vector<std::string>& names, std::size_t rows, std::size_t width) {
  const auto found = need(stored(names));
  if (!found) return no_tensor;
  expect_shape(*found, family_.embedding.class_token.empty() ? Shape{rows, width} : Shape{1, rows, width});
  return found->index;
}

}  // namespace attnctl
