#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/readers.hpp"
#include "formats/json.hpp"

// LoRA adapters in the layout of PEFT: a directory with adapter_config.json and adapter_model.safetensors.
namespace attnctl::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostAdapterBytes = std::size_t{4} << 20;
constexpr std::string_view kModulePrefix = "base_model.model.";
constexpr std::size_t kNone = Checkpoint::npos;

/// The change of one tensor of the model, by indices of tensors of the adapter: scale B A, or another value.
struct TensorUpdate {
  std::size_t a = kNone, b = kNone;  // [r, in] and [out, r]
  double scale = 1;
  bool transposed = false;    // the tensor is stored as [in, out]
  std::size_t value = kNone;  // replaces the tensor
};

/// The settings of adapter_config.json.
class AdapterConfig {
 public:
  AdapterConfig(std::string file, Json json) : file_(std::move(file)), json_(std::move(json)) {
    if (!json_.is_object()) refuse(file_, "got JSON that is not an object, need an object of settings");
    if (json_.value("peft_type", Json()) != "LORA")
      refuse(file_, "/peft_type: got {}, need \"LORA\"", shown(json_.value("peft_type", Json()).dump()));
    for (const char* const key : {"use_dora", "lora_bias"})
      if (json_.value(key, Json(false)) == Json(true))
        refuse(file_, "/{}: true is unsupported, need false", key);
    alpha_ = number("lora_alpha");
    root_ = json_.value("use_rslora", Json(false)) == Json(true);
    transposed_ = json_.value("fan_in_fan_out", Json(false)) == Json(true);
  }

  [[nodiscard]] bool transposed() const { return transposed_; }
  /// Returns the factor of B A for a module whose matrices have the rank r.
  [[nodiscard]] double scale(std::string_view module, std::size_t rank) const {
    double alpha = alpha_;
    const Json patterns = json_.value("alpha_pattern", Json::object());
    for (const auto& [name, value] : patterns.items()) {
      const bool ends = module == name || module.ends_with("." + name);
      if (ends && value.is_number()) alpha = value.template get<double>();
    }
    return alpha / (root_ ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank));
  }

 private:
  [[nodiscard]] double number(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end() || !found->is_number())
      refuse(file_, "/{}: got {}, need a number", key,
             found == json_.end() ? std::string("nothing") : shown(found->dump()));
    return found->get<double>();
  }

  std::string file_;
  Json json_;
  double alpha_ = 0;
  bool root_ = false, transposed_ = false;
};

/// A checkpoint some of whose tensors are changed. The changed tensors are float32.
class AdaptedCheckpoint final : public Checkpoint {
 public:
  AdaptedCheckpoint(std::unique_ptr<Checkpoint> base, std::unique_ptr<Checkpoint> adapter,
                    const std::map<std::size_t, TensorUpdate>& updates)
      : base_(std::move(base)), adapter_(std::move(adapter)), updates_(updates) {
    const MappedFile& nothing = map("adapter", std::span<const std::byte>());
    for (std::size_t i = 0; i < base_->tensors().size(); ++i) {
      TensorInfo info = base_->tensors()[i];
      std::uint64_t copied = base_->copied_bytes(i);
      if (updates_.contains(i)) {
        info.dtype = DType::f32;
        copied = saturating_sum(copied,
                                std::uint64_t{checked_product(info.shape, sizeof(float)).value_or(SIZE_MAX)});
      }
      add(nothing, std::move(info), {}, copied);
    }
    config = base_->config;
    tokenizer = base_->tokenizer;
  }

  [[nodiscard]] TensorView tensor(std::size_t index) override {
    const auto update = updates_.find(index);
    if (update == updates_.end()) return base_->tensor(index);
    std::vector<float>& values = changed_[index];
    const Shape& shape = tensors()[index].shape;
    if (values.empty())
      values = update->second.value == kNone ? sum(index, update->second)
                                             : floats(*adapter_, update->second.value);
    return {DType::f32, shape, std::as_bytes(std::span(values))};
  }
  void release(std::size_t index) override {
    changed_.erase(index);
    base_->release(index);
  }

 private:
  static std::vector<float> floats(Checkpoint& from, std::size_t index) {
    const TensorView view = from.tensor(index);
    std::vector<float> values(view.bytes.size() / size_of(view.dtype));
    convert(view.dtype, view.bytes, values);
    from.release(index);
    return values;
  }
  /// Returns W + scale B A, added in float64.
  std::vector<float> sum(std::size_t index, const TensorUpdate& update) {
    std::vector<float> values = floats(*base_, index);
    const std::vector<float> a = floats(*adapter_, update.a), b = floats(*adapter_, update.b);
    const std::size_t rank = adapter_->tensors()[update.a].shape[0], in = a.size() / rank,
                      out = b.size() / rank;
    std::vector<double> row(in);
    for (std::size_t o = 0; o < out; ++o) {
      std::ranges::fill(row, 0.0);
      for (std::size_t r = 0; r < rank; ++r) {
        const double factor = update.scale * double{b[o * rank + r]};
        for (std::size_t i = 0; i < in; ++i) row[i] += factor * double{a[r * in + i]};
      }
      for (std::size_t i = 0; i < in; ++i) {
        float& value = values[update.transposed ? i * out + o : o * in + i];
        value = static_cast<float>(double{value} + row[i]);
      }
    }
    return values;
  }

  std::unique_ptr<Checkpoint> base_, adapter_;
  std::map<std::size_t, TensorUpdate> updates_;        // by index of a tensor of the base
  std::map<std::size_t, std::vector<float>> changed_;  // the tensors that tensor() returned
};

/// Returns the tensor of the model with this name, or the only one whose name differs by a prefix, such as
/// "model." or "bert.".
std::size_t find_by_suffix(const Checkpoint& weights, const std::string& name) {
  if (const std::size_t same = weights.find(name); same != kNone) return same;
  std::size_t found = kNone;
  const auto tensors = weights.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string& other = tensors[i].name;
    if (!other.ends_with("." + name) && !name.ends_with("." + other)) continue;
    if (found != kNone) return kNone;
    found = i;
  }
  return found;
}

/// Removes `end` from the end of a name. Returns whether it was there.
bool remove_end(std::string& name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  name.resize(name.size() - end.size());
  return true;
}

void check_shape(const Checkpoint& adapter, std::size_t index, const Shape& need) {
  const TensorInfo& info = adapter.tensors()[index];
  if (info.shape != need)
    refuse_tensor(info.file, info.name, "got shape {}, need {}", to_string(info.shape), to_string(need));
}

/// Returns the changes that the tensors of an adapter make.
std::map<std::size_t, TensorUpdate> updates_of(const Checkpoint& adapter, const Checkpoint& base,
                                               const AdapterConfig& config, Warnings& warnings) {
  std::map<std::size_t, TensorUpdate> updates;
  std::map<std::size_t, std::string> modules;
  const auto tensors = adapter.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& info = tensors[i];
    if (!is_floating(info.dtype))
      refuse_tensor(info.file, info.name, "got type {}, need floating-point numbers", name_of(info.dtype));
    std::string name = info.name;
    if (name.starts_with(kModulePrefix)) name.erase(0, kModulePrefix.size());
    for (const std::string_view end : {".weight", ".default"}) {
      if (name.find(".lora_") != std::string::npos) remove_end(name, end);
    }
    const bool embeds = name.ends_with(".lora_embedding_A") || name.ends_with(".lora_embedding_B");
    const bool first = remove_end(name, ".lora_A") || remove_end(name, ".lora_embedding_A");
    const bool last = !first && (remove_end(name, ".lora_B") || remove_end(name, ".lora_embedding_B"));
    if (name.find(".lora_") != std::string::npos)
      refuse_tensor(info.file, info.name, "unsupported; need lora_A and lora_B, as of a LoRA without DoRA");
    if (!first && !last) {
      for (const std::string_view part : {".base_layer", ".modules_to_save"})
        if (const std::size_t at = name.find(part); at != std::string::npos) name.erase(at, part.size());
      const std::size_t target = find_by_suffix(base, name);
      if (target == kNone) {
        warnings.add("adapter_tensor_unused", fmt::format("{}: tensor {} belongs to no tensor of the model",
                                                          info.file, in_quotes(info.name)));
        continue;
      }
      check_shape(adapter, i, base.tensors()[target].shape);
      updates[target].value = i;
      continue;
    }
    const std::size_t target = find_by_suffix(base, name + ".weight");
    if (target == kNone)
      refuse_tensor(info.file, info.name, "the model has no tensor {}; need the adapter of this model",
                    in_quotes(name + ".weight"));
    if (info.shape.size() != 2 || info.shape[first ? 0 : 1] == 0)
      refuse_tensor(info.file, info.name, "got shape {}, need two dimensions", to_string(info.shape));
    TensorUpdate& update = updates[target];
    (first ? update.a : update.b) = i;
    update.transposed = embeds || config.transposed();
    modules[target] = name;
  }
  for (auto& [target, update] : updates) {
    if (update.value != kNone) continue;
    const TensorInfo& info = base.tensors()[target];
    if (update.a == kNone || update.b == kNone) {
      const TensorInfo& found = tensors[update.a == kNone ? update.b : update.a];
      refuse_tensor(found.file, found.name, "has no partner {}", update.a == kNone ? "lora_A" : "lora_B");
    }
    const std::size_t rank = tensors[update.a].shape[0];
    const Shape& shape = info.shape;
    if (shape.size() != 2) refuse_tensor(info.file, info.name, "an adapter can only change a matrix");
    const std::size_t out = shape[update.transposed ? 1 : 0], in = shape[update.transposed ? 0 : 1];
    check_shape(adapter, update.a, {rank, in});
    check_shape(adapter, update.b, {out, rank});
    update.scale = config.scale(modules[target], rank);
  }
  return updates;
}

}  // namespace

bool is_adapter(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / "adapter_config.json", ignored);
}

std::vector<fs::path> adapter_files(const fs::path& directory) {
  std::error_code ignored;
  const fs::path weights = directory / "adapter_model.safetensors";
  return {directory / "adapter_config.json",
          fs::exists(weights, ignored) ? weights : directory / "adapter_model.bin"};
}

void apply_adapter(const fs::path& directory, ModelSource& source, Warnings& warnings) {
  const std::vector<fs::path> files = adapter_files(directory);
  const std::string config_name = escaped(files[0].string());
  if (!is_adapter(directory))
    refuse(escaped(directory.string()),
           "no adapter_config.json; need the directory of a LoRA adapter in the layout of PEFT");
  const AdapterConfig config(config_name,
                             formats::parse_json(config_name, read_file(files[0], kMostAdapterBytes)));
  std::unique_ptr<Checkpoint> adapter = open_checkpoint(files[1], warnings, Status::bad_input);
  const auto updates = updates_of(*adapter, *source.weights, config, warnings);
  if (updates.empty())
    refuse(escaped(files[1].string()), "no tensor changes the model; need lora_A and lora_B matrices");
  source.weights =
      std::make_unique<AdaptedCheckpoint>(std::move(source.weights), std::move(adapter), updates);
  source.given += " + " + directory.string();
}

}  // namespace attnctl::checkpoint
