#include "checkpoint/gguf/gguf_model.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/gguf/gguf_architectures.hpp"
#include "checkpoint/gguf/gguf_rotary.hpp"

namespace attnctl {
namespace {

const GgufArchitecture& architecture_of(const std::string& file, const GgufMetadata& metadata) {
  const auto name = metadata.text("general.architecture");
  if (!name) fail(Status::bad_input, "{}: metadata \"general.architecture\": missing, need a string", file);
  std::string known;
  for (const GgufArchitecture& architecture : gguf_architectures()) {
    if (architecture.name == *name) return architecture;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", architecture.name);
  }
  fail(Status::bad_input, "{}: metadata \"general.architecture\": unsupported {}; supported: {}", file,
       in_quotes(*name), known);
}

/// A tensor's name in its parts: "blk.3.attn_q.weight" is layer 3, "attn_q" and ".weight".
struct NameParts {
  std::optional<std::size_t> layer;
  std::string_view stem;
  std::string_view ending;
};

NameParts parts_of(std::string_view name) {
  NameParts parts;
  constexpr std::string_view block = "blk.";
  if (name.starts_with(block)) {
    const char* const begin = name.data() + block.size();
    const char* const end = name.data() + name.size();
    std::size_t layer = 0;
    const auto [stop, error] = std::from_chars(begin, end, layer);
    const bool plain =
        error == std::errc() && stop != end && *stop == '.' && (*begin != '0' || stop == begin + 1);
    if (!plain) return {};
    parts.layer = layer;
    name.remove_prefix(static_cast<std::size_t>(stop + 1 - name.data()));
  }
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  parts.stem = name.substr(0, dot);
  parts.ending = name.substr(dot);
  return parts;
}

class Mapping {
 public:
  Mapping(const std::string& file, const GgufLayout& layout)
      : file_(file), layout_(layout), architecture_(architecture_of(file, layout.metadata)) {}

  GgufModel map() {
    refuse_split();
    make_config();
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      if (!architecture_.rotary || layout_.tensors[i].name != kRotaryFactors) map_tensor(i);
    }
    std::ranges::sort(model_.tensors, {}, &GgufMapped::name);
    const auto twice = std::ranges::adjacent_find(model_.tensors, {}, &GgufMapped::name);
    if (twice != model_.tensors.end()) {
      fail(Status::bad_input, "{}: tensors {} and {} are the same one; need one of them", file_,
           in_quotes(layout_.tensors[twice->tensor].name),
           in_quotes(layout_.tensors[std::next(twice)->tensor].name));
    }
    return std::move(model_);
  }

 private:
  [[nodiscard]] std::string full(std::string_view key) const {
    return fmt::format("{}.{}", architecture_.name, key);
  }

  [[nodiscard]] const GgufTensor* find(std::string_view name) const {
    const auto found = std::ranges::lower_bound(layout_.tensors, name, {}, &GgufTensor::name);
    return found != layout_.tensors.end() && found->name == name ? &*found : nullptr;
  }

  void refuse_split() const {
    const auto parts = layout_.metadata.integer("split.count");
    if (parts.value_or(0) <= 1) return;
    fail(Status::bad_input,
         "{}: metadata \"split.count\": unsupported model of {} files; merge them into one", file_, *parts);
  }

  void make_config() {
    nlohmann::ordered_json& config = model_.config;
    config = nlohmann::ordered_json::object();
    config["model_type"] = architecture_.name;
    for (const GgufKey& key : architecture_.keys) read_key(key);
    const std::uint64_t layers = layout_.metadata.integer(full("block_count")).value_or(0);
    if (layers > layout_.tensors.size()) {
      layout_.metadata.refuse(
          *layout_.metadata.find(full("block_count")),
          fmt::format("at most {}, as many as the file has tensors", layout_.tensors.size()));
    }
    if (const GgufTensor* token = find("token_embd.weight"); token != nullptr && !token->shape.empty())
      config["vocab_size"] = token->shape.front();
    for (const GgufFlag& flag : architecture_.flags)
      config[std::string(flag.key)] = find(flag.tensor) != nullptr;
    config["tie_word_embeddings"] = find("output.weight") == nullptr;
    for (const auto& [gguf, key] : {std::pair{"bos", "bos"}, {"eos", "eos"}, {"padding", "pad"}}) {
      if (const auto id = layout_.metadata.integer(fmt::format("tokenizer.ggml.{}_token_id", gguf)))
        config[fmt::format("{}_token_id", key)] = *id;
    }
    if (architecture_.rotary) {
      const std::string prefix(architecture_.name);
      add_gguf_rotary({file_, layout_.metadata, prefix, find(kRotaryFactors)}, config);
    }
    refuse_variants();
    if (architecture_.complete != nullptr) architecture_.complete(config);
  }

  void read_key(const GgufKey& key) {
    const std::string name = full(key.gguf);
    const std::string to(key.key);
    if (layout_.metadata.find(name) == nullptr) {
      if (!key.needed) return;
      fail(Status::bad_input, "{}: metadata \"{}\": missing, need a number above 0", file_, name);
    }
    if (key.kind == GgufKey::Kind::number) {
      const double value = layout_.metadata.number(name).value();
      if (value <= 0) layout_.metadata.refuse(*layout_.metadata.find(name), "a number above 0");
      model_.config[to] = value;
    } else {
      const std::uint64_t value = layout_.metadata.integer(name).value();
      constexpr std::uint64_t largest = std::uint64_t{1} << 31;
      if (value == 0 || value >= largest)
        layout_.metadata.refuse(*layout_.metadata.find(name), fmt::format("1 to {}", largest - 1));
      model_.config[to] = value;
    }
  }

  [[nodiscard]] bool is_read(std::string_view key) const {
    return std::ranges::find(architecture_.keys, key, &GgufKey::gguf) != architecture_.keys.end();
  }

  /// What changes the results and is not computed.
  void refuse_variants() const {
    for (const std::string_view key : {"expert_count", "attention.sliding_window"}) {
      const std::string name = full(key);
      if (is_read(key)) continue;
      if (layout_.metadata.find(name) != nullptr && layout_.metadata.integer(name).value() != 0)
        layout_.metadata.refuse(*layout_.metadata.find(name), "0, anything else is unsupported");
    }
    for (const std::string_view key :
         {"attention.scale", "attention.clamp_kqv", "attention.max_alibi_bias", "attn_logit_softcapping",
          "final_logit_softcapping", "logit_scale", "embedding_scale", "residual_scale"}) {
      const std::string name = full(key);
      if (is_read(key)) continue;
      if (layout_.metadata.find(name) != nullptr && layout_.metadata.number(name).value() != 0)
        layout_.metadata.refuse(*layout_.metadata.find(name), "none or 0, anything else is unsupported");
    }
    const auto keys = layout_.metadata.integer(full("attention.key_length"));
    const auto values = layout_.metadata.integer(full("attention.value_length"));
    if (values && keys != values) {
      layout_.metadata.refuse(*layout_.metadata.find(full("attention.value_length")),
                              fmt::format("{} (another width than the keys' is unsupported)",
                                          keys ? fmt::format("{}", *keys) : "attention.key_length"));
    }
  }

  void map_tensor(std::size_t index) {
    const GgufTensor& tensor = layout_.tensors[index];
    GgufMapped mapped;
    mapped.name = tensor.name;
    mapped.tensor = index;
    const NameParts parts = parts_of(tensor.name);
    for (const GgufName& row : architecture_.names) {
      const bool in_layer = row.name.find("{}") != std::string_view::npos;
      if (row.gguf != parts.stem || in_layer != parts.layer.has_value()) continue;
      mapped.name = fmt::format(fmt::runtime(row.name), parts.layer.value_or(0));
      mapped.name += parts.ending;
      mapped.order = order_of(row, tensor);
      mapped.added = row.added;
      if (row.added != 0 && tensor.type->decode != nullptr) {
        fail(Status::bad_input, "{}: tensor {}: unsupported {} norm; need F32, F16 or BF16", file_,
             in_quotes(tensor.name), tensor.type->name);
      }
      if (mapped.order == GgufOrder::rotary_pairs) mapped.heads = heads_of(row, tensor);
    }
    model_.tensors.push_back(std::move(mapped));
  }

  [[nodiscard]] GgufOrder order_of(const GgufName& row, const GgufTensor& tensor) const {
    if (tensor.shape.size() == 2) return row.order;
    if (tensor.shape.size() != 1 && row.order != GgufOrder::as_stored) {
      fail(Status::bad_input, "{}: tensor {}: got shape {}, need one or two dimensions", file_,
           in_quotes(tensor.name), to_string(tensor.shape));
    }
    if (row.order != GgufOrder::rotary_pairs) return GgufOrder::as_stored;  // a bias
    if (tensor.type->decode != nullptr) {
      fail(Status::bad_input, "{}: tensor {}: unsupported {} bias; need F32, F16 or BF16", file_,
           in_quotes(tensor.name), tensor.type->name);
    }
    return row.order;
  }

  [[nodiscard]] std::size_t heads_of(const GgufName& row, const GgufTensor& tensor) const {
    const auto all = layout_.metadata.integer(full("attention.head_count")).value();
    const auto heads = static_cast<std::size_t>(layout_.metadata.integer(full(row.heads)).value_or(all));
    if (tensor.shape.front() % (2 * heads) != 0) {
      fail(Status::bad_input, "{}: tensor {}: got shape {}, need rows of {} heads ({}) of an even width",
           file_, in_quotes(tensor.name), to_string(tensor.shape), heads, full(row.heads));
    }
    return heads;
  }

  const std::string& file_;
  const GgufLayout& layout_;
  const GgufArchitecture& architecture_;
  GgufModel model_;
};

}  // namespace

GgufModel map_gguf(const std::string& file, const GgufLayout& layout) {
  return Mapping(file, layout).map();
}

}  // namespace attnctl
