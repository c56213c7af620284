#include "model/binding/binding.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"

namespace attnctl::model {
namespace {

constexpr std::string_view kExpertMark = "{expert}";
constexpr std::string_view kHeadMark = "{head}";

std::string join_first(const std::vector<std::string>& all, std::string_view separator) {
  constexpr std::size_t shown = 8;
  const auto first = std::span(all).first(std::min(all.size(), shown));
  return fmt::format("{}{}", fmt::join(first, separator),
                     all.size() > shown ? fmt::format(" and {} more", all.size() - shown) : "");
}

bool has_mark(const StoredTensor& tensor, std::string_view mark) {
  return tensor.name.find(mark) != std::string::npos;
}

std::string with_number(std::string name, std::string_view mark, std::size_t number) {
  const std::size_t at = name.find(mark);
  return at == std::string::npos ? name : name.replace(at, mark.size(), std::to_string(number));
}

std::vector<StoredTensor> numbered(std::span<const StoredTensor> names, std::string_view mark,
                                   std::size_t number) {
  std::vector<StoredTensor> out(names.begin(), names.end());
  for (StoredTensor& tensor : out) tensor.name = with_number(tensor.name, mark, number);
  return out;
}

/// Returns the outputs of projection `index` in a tensor in which several projections alternate `groups`
/// times. `widths` are the widths of the projections in one group, in stored order.
Slices one_of(std::initializer_list<std::size_t> widths, std::size_t index, std::size_t groups = 1) {
  const std::size_t* const own = widths.begin() + index;
  const std::size_t stride = std::accumulate(widths.begin(), widths.end(), std::size_t{0});
  return {.first = std::accumulate(widths.begin(), own, std::size_t{0}),
          .groups = groups,
          .each = *own,
          .stride = stride,
          .all = groups * stride};
}

struct ProjectionOutputs {
  std::size_t heads = 1;
  std::size_t each = 0;  // number of outputs per head
  /// Index of the projection if it is packed with others in one tensor, in the order query, key, value or
  /// gate, up.
  std::size_t index = 0;
  const AttentionConfig* attention = nullptr;  // only for query, key and value
  std::size_t input_heads = 0;  // of an output projection, which may be stored as [heads, v, out]

  [[nodiscard]] Slices slices(Packing packing) const {
    const std::size_t width = heads * each;
    if (packing == Packing::gate_up) return one_of({width, width}, index);
    if (packing == Packing::gate_up_by_turns) return one_of({1, 1}, index, width);
    if (packing == Packing::whole || attention == nullptr) return Slices::whole(width);
    const AttentionConfig& a = *attention;
    const std::size_t k = a.d_head;
    const std::size_t v = a.d_value;
    if (packing == Packing::by_head) return one_of({k, k, v}, index, a.heads);
    if (packing == Packing::by_key_head) return one_of({a.heads / a.kv_heads * k, k, v}, index, a.kv_heads);
    if (packing == Packing::query_key_value)
      return one_of({a.query_slices() * k, a.kv_heads * k, a.kv_heads * v}, index);
    const std::size_t quarter = a.heads / 4 * k;
    constexpr std::array<std::size_t, 3> order = {0, 2, 1};  // in_four_blocks: q, v, k
    return one_of({quarter, quarter, quarter}, order[index], 4);
  }
};

std::optional<std::size_t> layer_number(std::string_view name, std::string_view layer_prefix) {
  const std::size_t mark = layer_prefix.find("{}");
  if (mark == std::string_view::npos || !name.starts_with(layer_prefix.substr(0, mark))) return std::nullopt;
  name.remove_prefix(mark);
  const std::string_view digits = name.substr(0, name.find_first_not_of("0123456789"));
  const bool matches = name.substr(digits.size()).starts_with(layer_prefix.substr(mark + 2));
  return matches ? parse_number(digits) : std::nullopt;
}

/// Returns the number of possible names of a layer's projections (query, key, value, output, MLP up and down)
/// that the checkpoint contains with this prefix. Counts names of whole weights and of factors. If several
/// projections have the same name because they are packed in one tensor, the name counts for each.
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

/// Finds the tensors of a model and checks their shapes and types. The functions collect missing tensors and
/// other faults; at the end, check_faults() throws one error for all of them.
class TensorBinder {
 public:
  TensorBinder(const FamilySpec& family, const ModelConfig& config, const checkpoint::Checkpoint& weights,
               std::string config_file)
      : family_(family),
        config_(config),
        names_(family, weights, config.layers.size()),
        config_file_(std::move(config_file)) {
    bound_.used.resize(weights.tensors().size());
  }

  [[nodiscard]] Binding bind() {
    bind_layers();
    bind_ends();
    if (config_.head.present) bind_head();
    check_extra_layers(false);
    if (config_.decoder) check_extra_layers(true);
    check_faults();
    return std::move(bound_);
  }

 private:
  void add_fault(const std::string& fault) {
    if (known_.insert(fault).second) faults_.push_back(fault);
  }

  void check_faults() const {
    if (missing_.empty() && faults_.empty()) return;
    if (missing_.empty()) fail(Status::bad_input, "{}", join_first(faults_, "; "));
    const auto tensors = names_.weights().tensors();
    std::string_view file = tensors.empty() ? std::string_view(config_file_) : tensors.front().file;
    const bool shards = std::ranges::any_of(tensors, [&](const auto& tensor) { return tensor.file != file; });
    if (shards) file = file.substr(0, file.find_last_of('/'));
    fail(Status::bad_input, "{}: {} {} missing that {} needs: {}{}{}", escaped(file), missing_.size(),
         missing_.size() == 1 ? "tensor is" : "tensors are", escaped(config_file_),
         join_first(missing_, ", "), faults_.empty() ? "" : "; ", join_first(faults_, "; "));
  }

  [[nodiscard]] std::optional<LocatedTensor> find(std::span<const StoredTensor> names) const {
    return names_.find(names, prefix_);
  }

  [[nodiscard]] BoundLinear linear(const LinearSpec& spec, LinearParts parts, std::size_t in,
                                   const ProjectionOutputs& out) {
    BoundLinear bound;
    if (parts.weight && parts.rank > 0) {
      bound.first =
          matrix({&spec.factors.front(), 1}, in, {.each = parts.rank, .input_heads = out.input_heads});
      bound.weight = matrix({&spec.factors.back(), 1}, parts.rank, out);
    } else if (parts.weight) {
      bound.weight = matrix(spec.weight, in, out);
    }
    if (parts.bias) bound.bias = bias(spec.bias, out);
    return bound;
  }

  /// Returns the location of a linear layer that is stored as a convolution with a weight of this shape. All
  /// axes after the first are inputs.
  [[nodiscard]] BoundLinear convolution(const LinearSpec& spec, const Shape& shape) {
    BoundLinear bound;
    if (const auto found = need(spec.weight)) {
      expect_shape(*found, shape);
      bound.weight.tensor = found->index;
      bound.weight.in = checked_product(std::span(shape).subspan(1)).value_or(0);
      bound.weight.outputs = Slices::whole(shape.front());
    }
    bound.bias = bias(spec.bias, {.each = shape.front()});
    return bound;
  }

  /// Returns the locations of one linear layer per expert, which are stored under names with `{expert}` or in
  /// one tensor [experts, ...].
  [[nodiscard]] std::vector<BoundLinear> expert_linears(const LinearSpec& spec, LinearParts parts,
                                                        std::size_t in, const ProjectionOutputs& out,
                                                        std::size_t experts) {
    std::vector<StoredTensor> one_each, stacked;
    std::ranges::partition_copy(spec.weight, std::back_inserter(one_each), std::back_inserter(stacked),
                                [&](const StoredTensor& name) { return has_mark(name, kExpertMark); });
    std::vector<BoundLinear> bound(experts);
    if (!one_each.empty() && (stacked.empty() || !find(stacked))) {
      for (std::size_t e = 0; e < experts; ++e)
        bound[e].weight = matrix(numbered(one_each, kExpertMark, e), in, out);
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

  [[nodiscard]] BoundVector array(std::span<const StoredTensor> names, const Shape& shape) {
    const auto found = need(names);
    if (!found) return {};
    expect_shape(*found, shape);
    return {.tensor = found->index,
            .elements = Slices::whole(checked_product(shape).value_or(0)),
            .width = shape.back()};
  }

  /// Returns the location of the gain and the bias of a norm, each [width]. If `copies` is set (the number of
  /// heads), each head has a gain and a bias: in tensors with `{head}` in their names, or in one tensor
  /// [copies, width].
  [[nodiscard]] BoundNorm norm(const NormSpec& spec, NormKind kind, std::size_t width,
                               std::optional<std::size_t> copies = {}) {
    if (kind == NormKind::none) return {};
    return {vectors(spec.gain, width, copies), vectors(spec.bias, width, copies), family_.gain_offset};
  }

  /// Returns the index of a tensor [rows, width], or [1, rows, width] if the family reads images.
  [[nodiscard]] std::size_t table(const std::vector<StoredTensor>& names, std::size_t rows,
                                  std::size_t width) {
    const bool images = !family_.embedding.class_token.empty();
    return array(names, images ? Shape{1, rows, width} : Shape{rows, width}).tensor;
  }

  /// Finds a tensor, marks it as used, and records its other names that are stored. Adds a fault if the
  /// tensor is missing or does not hold floating-point numbers.
  std::optional<LocatedTensor> need(std::span<const StoredTensor> names) {
    const auto found = find(names);
    if (!found) {
      const std::string name = prefix_ + names.front().name;
      if (known_.insert(name).second) missing_.push_back(name);
      return std::nullopt;
    }
    bound_.used[found->index] = true;
    const checkpoint::TensorInfo& info = names_.info(*found);
    if (!is_floating(info.dtype)) {
      add_fault(fmt::format("{}: tensor \"{}\": got dtype {}, need F64, F32, F16 or BF16", info.file,
                            escaped(info.name), name_of(info.dtype)));
    }
    for (const StoredTensor& name : names) {
      const auto other = find({&name, 1});
      if (other && other->index != found->index) bound_.alternatives.emplace_back(other->index, found->index);
    }
    return found;
  }

  void expect_shape(const LocatedTensor& tensor, const Shape& expected) {
    const checkpoint::TensorInfo& info = names_.info(tensor);
    if (info.shape == expected) return;
    add_fault(fmt::format("{}: tensor \"{}\": got shape {}, need {} ({} according to {}{})", info.file,
                          escaped(info.name), to_string(info.shape), to_string(expected), shape_origin_,
                          escaped(config_file_),
                          family_.sizes_from_tensors ? " and the first layer's projections" : ""));
  }

  BoundMatrix matrix(std::span<const StoredTensor> names, std::size_t in, const ProjectionOutputs& out) {
    const auto found = need(names);
    if (!found) return {};
    if (found->packing == Packing::in_four_blocks && out.heads % 4 != 0) {
      add_fault(fmt::format("{}: got {}, need a multiple of 4, because \"{}\" stores them in 4 parts",
                            escaped(config_file_), counted(out.heads, "head"),
                            escaped(names_.info(*found).name)));
      return {};
    }
    BoundMatrix bound = {
        .tensor = found->index, .axes = found->axes, .in = in, .outputs = out.slices(found->packing)};
    const std::size_t stored_out = bound.outputs.all;
    if (found->axes == Axes::out_in) {
      expect_shape(*found, {stored_out, in});
    } else if (found->axes == Axes::in_out_or_head && names_.info(*found).shape.size() == 3) {
      const std::size_t heads = out.input_heads;
      expect_shape(*found, heads > 0 ? Shape{heads, in / heads, stored_out} : Shape{out.heads, in, out.each});
      if (heads == 0) bound.heads = out.heads;
    } else {
      expect_shape(*found, {in, stored_out});
    }
    return bound;
  }

  BoundVector bias(std::span<const StoredTensor> names, const ProjectionOutputs& out) {
    const auto found = need(names);
    if (!found) return {};
    const Slices slices = out.slices(found->packing);
    const bool by_head = found->axes == Axes::in_out_or_head && names_.info(*found).shape.size() == 2;
    expect_shape(*found, by_head ? Shape{out.heads, out.each} : Shape{slices.all});
    return {.tensor = found->index, .elements = slices};
  }

  std::vector<BoundVector> vectors(const std::vector<StoredTensor>& names, std::size_t width,
                                   std::optional<std::size_t> copies) {
    if (names.empty()) return {};
    if (!copies) return {array(names, {width})};
    if (!has_mark(names.front(), kHeadMark)) return {array(names, {*copies, width})};
    std::vector<BoundVector> bound;
    for (std::size_t head = 0; head < *copies; ++head)
      bound.push_back(array(numbered(names, kHeadMark, head), {width}));
    return bound;
  }

  [[nodiscard]] const LayerSpec& spec_of(const LayerConfig& layer) const {
    if (layer.component == Component::decoder) return family_.decoder->self;
    if (layer.component == Component::cross) return family_.decoder->cross;
    return family_.layer;
  }

  BoundNorm head_norm(const NormSpec& spec, const AttentionConfig& attention, std::size_t heads) {
    const bool whole = attention.head_norm_span == HeadNormSpan::whole;
    const bool each = attention.head_norm_span == HeadNormSpan::each;
    return norm(spec, attention.head_norm.kind, (whole ? heads : 1) * attention.d_head,
                each ? std::optional(heads) : std::nullopt);
  }

  void bind_distances(const AttentionConfig& attention, BoundLayer& bound) {
    if (!attention.disentangled) return;
    const DisentangledSpec& spec = family_.disentangled.value();
    const DisentangledConfig& distances = *attention.disentangled;
    const ProjectionOutputs outputs = {attention.heads, attention.d_head};
    bound.distance_key = linear(spec.key, distances.key, config_.d_model, outputs);
    bound.distance_query = linear(spec.query, distances.query, config_.d_model, outputs);
    if (distances.content_to_position && !distances.key.weight) bound.distance_key = bound.key;
    if (distances.position_to_content && !distances.query.weight) bound.distance_query = bound.query;
  }

  void bind_attention(const LayerConfig& layer, BoundLayer& bound) {
    const AttentionConfig& attention = layer.attention;
    const LayerSpec& spec = spec_of(layer);
    shape_origin_ =
        fmt::format("width {}, {}, {}, head dimension {}", config_.d_model, counted(attention.heads, "head"),
                    counted(attention.kv_heads, "key/value head"), attention.d_head);
    bound.query = linear(spec.query, attention.query, config_.d_model,
                         {attention.query_slices(), attention.d_head, 0, &attention});
    bound.key = linear(spec.key, attention.key, config_.d_key_input,
                       {attention.kv_heads, attention.d_head, 1, &attention});
    if (!attention.key.weight) {
      bound.key.weight = bound.query.weight;
      bound.key.first = bound.query.first;
    }
    bound.value = linear(spec.value, attention.value, config_.d_value_input,
                         {attention.kv_heads, attention.d_value, 2, &attention});
    bound.output = linear(spec.output, attention.output, attention.heads * attention.d_value,
                          {.each = config_.d_output, .input_heads = attention.heads});
    bound.query_norm = head_norm(spec.query_norm, attention, attention.heads);
    bound.key_norm = head_norm(spec.key_norm, attention, attention.kv_heads);
    bind_distances(attention, bound);
    if (attention.sinks) bound.sinks = array(spec.sinks, {attention.heads});
  }

  void bind_norms(const LayerConfig& layer, BoundLayer& bound) {
    if (layer.place == NormPlace::none) return;
    const LayerSpec& spec = spec_of(layer);
    const auto norm = [&](const NormSpec& of) { return this->norm(of, layer.norm.kind, config_.d_model); };
    if (layer.attention_normed) bound.attention_norm = norm(spec.attention_norm);
    if (layer.mlp.width > 0) bound.mlp_norm = norm(spec.mlp_norm);
    if (layer.place != NormPlace::both) return;
    bound.attention_output_norm = norm(spec.attention_output_norm);
    bound.mlp_output_norm = norm(spec.mlp_output_norm);
  }

  [[nodiscard]] BoundMlp mlp(const MlpSpec& spec, LinearParts parts, bool gated, std::size_t width) {
    BoundMlp bound;
    bound.up = linear(spec.up, parts, config_.d_model, {1, width, 1});
    if (gated) bound.gate = linear(spec.gate, parts, config_.d_model, {1, width, 0});
    bound.down = linear(spec.down, parts, width, {.each = config_.d_model});
    return bound;
  }

  void bind_experts(const LayerConfig& layer, BoundLayer& bound) {
    const ExpertsSpec& spec = family_.layer.experts.value();
    const ExpertsConfig& experts = layer.experts;
    const LinearParts parts = {true, layer.mlp.bias};
    shape_origin_ =
        fmt::format("width {}, {} experts of width {}", config_.d_model, experts.count, layer.mlp.width);
    bound.router = linear(spec.router, {true, experts.router_bias}, config_.d_model, {.each = experts.count});
    const auto each = [&](const LinearSpec& of, std::size_t in, const ProjectionOutputs& out) {
      return expert_linears(of, parts, in, out, experts.count);
    };
    const auto up = each(spec.each.up, config_.d_model, {1, layer.mlp.width, 1});
    const auto gate = each(spec.each.gate, config_.d_model, {1, layer.mlp.width, 0});
    const auto down = each(spec.each.down, layer.mlp.width, {.each = config_.d_model});
    for (std::size_t e = 0; e < experts.count; ++e) bound.experts.push_back({up[e], gate[e], down[e]});
    if (experts.shared_width == 0) return;
    shape_origin_ = fmt::format("width {}, shared expert of width {}", config_.d_model, experts.shared_width);
    bound.shared = mlp(spec.shared, parts, true, experts.shared_width);
    bound.shared_factor = linear(spec.shared_factor, {true, false}, config_.d_model, {.each = 1});
  }

  /// Finds the tensors of a layer that are not stored as part of it: tables that all layers of a stack share,
  /// and the convolution after the layer.
  void bind_outside(const LayerConfig& layer, BoundLayer& bound) {
    const AttentionConfig& attention = layer.attention;
    prefix_ = names_.outside_layers();
    if (attention.relative_buckets) {
      const std::size_t rows = attention.relative_buckets->rows;
      shape_origin_ = fmt::format("{} buckets of distances, {} heads", rows, attention.heads);
      const auto& spec = layer.component == Component::decoder ? family_.decoder->relative : family_.relative;
      bound.relative_bias = array(spec->table, {rows, attention.heads});
    }
    if (attention.disentangled) {
      const DisentangledSpec& spec = family_.disentangled.value();
      const std::size_t rows = 2 * attention.disentangled->span;
      shape_origin_ = fmt::format("{} rows of distances, width {}", rows, config_.d_model);
      bound.distance_table = array(spec.table, {rows, config_.d_model});
      bound.distance_norm = norm(spec.norm, attention.disentangled->norm.kind, config_.d_model);
    }
    if (layer.convolution) {
      const ConvolutionSpec& spec = family_.convolution.value();
      const auto& [kernel, groups, activation] = *layer.convolution;
      shape_origin_ = fmt::format("width {}, a kernel of {} in {} groups", config_.d_model, kernel, groups);
      bound.convolution = convolution(spec.kernel, {config_.d_model, config_.d_model / groups, kernel});
      bound.convolution_norm = norm(spec.norm, layer.norm.kind, config_.d_model);
    }
  }

  void bind_layers() {
    for (const LayerConfig& layer : config_.layers) {
      const auto [entry, is_new] = bound_.layers.try_emplace(layer.stored());
      if (!is_new) continue;
      BoundLayer& bound = entry->second;
      bind_outside(layer, bound);
      prefix_ = names_.in_layer(layer.stored());
      bind_attention(layer, bound);
      bind_norms(layer, bound);
      if (layer.experts.count > 0) {
        bind_experts(layer, bound);
      } else if (layer.mlp.width > 0) {
        shape_origin_ = fmt::format("width {}, MLP width {}", config_.d_model, layer.mlp.width);
        bound.mlp = mlp(spec_of(layer).mlp, {true, layer.mlp.bias}, layer.mlp.gated, layer.mlp.width);
      }
    }
  }

  BoundEmbedding bind_embedding(const EmbeddingSpec& spec, const EmbeddingConfig& embedding) {
    BoundEmbedding bound;
    prefix_ = names_.outside_layers();
    if (embedding.vocabulary > 0) {
      shape_origin_ = fmt::format("vocabulary of {}", embedding.vocabulary);
      bound.token = table(spec.token, embedding.vocabulary, embedding.width);
    }
    if (embedding.position == PositionKind::learned) {
      const std::size_t rows = config_.max_positions.value() + embedding.position_offset;
      shape_origin_ =
          embedding.pixels.present() ? fmt::format("{} patches and a class token", embedding.pixels.patches())
          : embedding.position_offset == 0 ? fmt::format("{} positions", *config_.max_positions)
                                           : fmt::format("{} positions after {} other rows",
                                                         *config_.max_positions, embedding.position_offset);
      bound.position =
          table(spec.position, rows, embedding.positions_last ? config_.d_model : embedding.width);
    }
    if (embedding.pixels.present()) {
      const PatchGrid& grid = embedding.pixels;
      shape_origin_ = fmt::format("embedding width {}, {} channels in patches of {} by {}", embedding.width,
                                  grid.channels, grid.patch_height, grid.patch_width);
      bound.class_token = table(spec.class_token, 1, embedding.width);
      bound.patches =
          convolution(spec.patches, {embedding.width, grid.channels, grid.patch_height, grid.patch_width});
    }
    if (embedding.token_types > 0) {
      shape_origin_ = fmt::format("{} token types", embedding.token_types);
      bound.token_type = table(spec.token_type, embedding.token_types, embedding.width);
    }
    shape_origin_ = fmt::format("embedding width {}, model width {}", embedding.width, config_.d_model);
    bound.norm =
        norm(spec.norm, embedding.norm.kind, embedding.projected_first ? config_.d_model : embedding.width);
    bound.projection =
        linear(spec.projection, embedding.projection, embedding.width, {.each = config_.d_model});
    return bound;
  }

  void bind_ends() {
    bound_.embedding = bind_embedding(family_.embedding, config_.embedding);
    if (config_.decoder)
      bound_.target_embedding = bind_embedding(family_.decoder->embedding, config_.decoder->embedding);
    prefix_ = names_.outside_layers();
    shape_origin_ = fmt::format("width {}", config_.d_model);
    const auto norm = [&](const NormSpec& spec, const NormConfig& of) {
      return this->norm(spec, of.kind, config_.d_model);
    };
    if (config_.decoder) bound_.encoder_norm = norm(family_.final_norm, config_.decoder->encoder_norm);
    bound_.final_norm =
        norm(config_.decoder ? family_.decoder->final_norm : family_.final_norm, config_.final_norm);
  }

  void bind_head() {
    const HeadSpec& spec = *family_.head;
    const HeadConfig& head = config_.head;
    const EmbeddingConfig& embedding = config_.output_embedding();
    const std::size_t token = config_.decoder ? bound_.target_embedding.token : bound_.embedding.token;
    const std::size_t width = config_.head_width();
    shape_origin_ = fmt::format("model width {}, embedding width {}, vocabulary of {}", config_.d_model,
                                embedding.width, embedding.vocabulary);
    prefix_ = names_.outside_layers();
    bound_.head_projection = linear(spec.projection, head.projection, config_.d_model, {.each = width});
    prefix_.clear();
    if (head.transform) {
      bound_.head_transform =
          linear(spec.transform, {true, head.transform_bias}, config_.d_model, {.each = width});
      bound_.head_norm = norm(spec.transform_norm, head.norm.kind, width);
    }
    bound_.head_decoder =
        linear(spec.decoder, {!head.tied, head.bias}, width, {.each = embedding.vocabulary});
    if (head.tied) {
      if (const auto copy = find(spec.decoder.weight)) bound_.alternatives.emplace_back(copy->index, token);
      bound_.head_decoder.weight = {
          .tensor = token, .axes = Axes::out_in, .in = width, .outputs = Slices::whole(embedding.vocabulary)};
    }
  }

  void check_extra_layers(bool of_decoder) {
    std::set<std::size_t> known, extra;
    for (const LayerConfig& layer : config_.layers) {
      const bool in_decoder = layer.component == Component::decoder || layer.component == Component::cross;
      if (in_decoder == of_decoder) known.insert(layer.stored_as);
    }
    const std::string prefix = names_.layer_prefix(of_decoder);
    std::string_view file;
    for (const checkpoint::TensorInfo& tensor : names_.weights().tensors()) {
      const auto number = layer_number(tensor.name, prefix);
      if (!number || known.contains(*number) || is_known_buffer(tensor.name)) continue;
      extra.insert(*number);
      file = tensor.file;
    }
    if (extra.empty()) return;
    add_fault(
        fmt::format("{0}: {1} {2} is stored{3}, but the number of {1}s in the configuration is {4}", file,
                    family_.keys.groups.default_value ? "layer group"
                    : of_decoder                      ? "decoder layer"
                                                      : "layer",
                    *extra.begin(), extra.size() > 1 ? fmt::format(", and {} more", extra.size() - 1) : "",
                    known.size()));
  }

  const FamilySpec& family_;
  const ModelConfig& config_;
  TensorNames names_;
  std::string config_file_;
  Binding bound_;
  std::vector<std::string> missing_;  // names of tensors
  std::vector<std::string> faults_;   // other faults
  std::set<std::string> known_;       // texts in missing_ and faults_, to report each one once
  std::string prefix_;                // current prefix of tensor names
  std::string shape_origin_;          // for messages: the configured sizes that determine the expected shapes
};

}  // namespace

TensorNames::TensorNames(const FamilySpec& family, const checkpoint::Checkpoint& weights, std::size_t layers)
    : family_(&family), weights_(&weights) {
  std::ptrdiff_t best = -1;
  for (const std::string& prefix : family.prefixes) {
    for (const std::string& layer_prefix : family.layer_prefixes) {
      if (layers > 1 && layer_prefix.find("{}") == std::string::npos) continue;
      const std::ptrdiff_t count =
          count_stored_names(family.layer, weights, prefix + with_number(layer_prefix, "{}", 0));
      if (count <= best) continue;
      best = count;
      prefix_ = prefix;
      layer_prefix_ = layer_prefix;
    }
  }
}

std::string TensorNames::in_layer(const LayerConfig::Key& layer) const {
  const bool of_decoder = layer.component == Component::decoder || layer.component == Component::cross;
  return with_number(layer_prefix(of_decoder), "{}", layer.number);
}

std::optional<LocatedTensor> TensorNames::find(std::span<const StoredTensor> names,
                                               const std::string& prefix) const {
  std::optional<LocatedTensor> found;
  for (const StoredTensor& tensor : names) {
    const std::size_t index = weights_->find(prefix + tensor.name);
    if (index == checkpoint::Checkpoint::npos) continue;
    if (found) reject_both(info(*found), prefix + tensor.name);
    found = LocatedTensor{index, tensor.axes, tensor.packing};
    if (!family_->sizes_from_tensors) break;
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
  const auto& stored_a = weights.encoded(a);
  const auto& stored_b = weights.encoded(b);
  if (stored_a && stored_b) {
    const bool alike =
        stored_a->encoding == stored_b->encoding && stored_a->transposed == stored_b->transposed &&
        stored_a->head_rows == stored_b->head_rows && std::ranges::equal(stored_a->bytes, stored_b->bytes);
    weights.forget_stored(a, stored_a->bytes);
    weights.forget_stored(b, stored_b->bytes);
    return alike;
  }
  const bool same = std::ranges::equal(weights.tensor(a).bytes, weights.tensor(b).bytes);
  weights.release(a);
  weights.release(b);
  return same;
}

Binding bind_tensors(const FamilySpec& family, const ModelConfig& config,
                     const checkpoint::Checkpoint& weights, const std::string& config_file) {
  return TensorBinder(family, config, weights, config_file).bind();
}

}  // namespace attnctl::model
