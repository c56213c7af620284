#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attn {

/// The part of a model that an attention layer belongs to. The layers of a model with one stack have `none`.
/// A decoder layer of an encoder-decoder model counts as two attention layers: `decoder` attends to the
/// decoder's own tokens, and `cross` attends to the encoder's output.
enum class Component { none, encoder, decoder, cross };

/// Identifies a head. `layer` counts from 0 within the component, `head` from 0 within the layer.
struct Head {
  Component component = Component::none;
  std::size_t layer = 0;
  std::size_t head = 0;

  friend bool operator==(const Head&, const Head&) = default;
};

/// Returns the name of a head: "LAYER.HEAD" for the component `none`, otherwise "enc.LAYER.HEAD",
/// "dec.LAYER.HEAD" or "cross.LAYER.HEAD".
[[nodiscard]] std::string to_string(const Head& head);

/// The properties of one attention layer.
struct LayerInfo {
  Component component = Component::none;
  std::size_t number = 0;  // number of the layer within its component, from 0
  std::size_t heads = 0;
  std::size_t kv_heads = 0;  // number of key/value heads; several heads may share one
  std::size_t d_head = 0;    // width of a query and of a key
  std::size_t d_value = 0;   // width of a value; 0: unknown, because the checkpoint has no W_V and no W_O
  bool causal = false;       // true if queries attend only to keys at the same or earlier positions
  std::string kind;  // the kind of attention: "full", "window:64", "block:16", "strided:8" or "linear"
};

/// The name, sizes and layers of a model.
struct ModelInfo {
  std::string name;    // the argument `model` of Model::open
  std::string family;  // "bert", "llama", ...; `attnctl info --families` lists them
  std::size_t d_model = 0;
  std::size_t vocabulary = 0;                // number of token ids; 0 if the model's inputs are not token ids
  std::optional<std::size_t> max_positions;  // longest input in tokens; nullopt: no limit
  std::uint64_t parameters = 0;              // number of values in all parameter tensors
  /// In an encoder-decoder model: all `encoder` layers, then `decoder` and `cross` layers alternately.
  std::vector<LayerInfo> layers;
};

/// A problem that did not stop the work but may affect the results.
struct Warning {
  std::string code;         // identifier for programs: "non_finite_weight", "fully_masked_row", ...
  std::string message;      // message of the first occurrence
  std::uint64_t count = 1;  // number of occurrences
};

/// A model. Its weights are read from disk when they are needed. A model never changes, except that its list
/// of warnings grows. Copies share their data. Several threads may use one model at once.
class Model {
 public:
  /// Opens a model. `model` is a directory in Hugging Face layout, a weights file (safetensors, PyTorch,
  /// GGUF, NPZ, JSON), or the name of a model in the local Hugging Face cache. `config` is the path of a file
  /// that is used instead of the model's config.json. Throws Error(environment) if the model or `config`
  /// cannot be found or a file cannot be read, Error(bad_input) if the model is incomplete, invalid or not
  /// supported, and Error(limit) if the model needs more memory or larger sizes than attnctl allows.
  [[nodiscard]] static Model open(const std::string& model, const std::optional<std::string>& config = {});

  [[nodiscard]] const ModelInfo& info() const;
  /// Returns all warnings so far: from opening the model, from every run and analysis that used it, and from
  /// loading the BLAS library.
  [[nodiscard]] std::vector<Warning> warnings() const;

  struct Parts;  // used only inside the library
  [[nodiscard]] Parts& parts() const { return *parts_; }

 private:
  explicit Model(std::shared_ptr<Parts> parts);
  std::shared_ptr<Parts> parts_;
};

}  // namespace attn
