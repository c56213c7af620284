#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attn {

/// The part of a model that a layer belongs to. A model with one stack of layers uses `none`. A decoder layer
/// of an encoder-decoder model is two layers here: `decoder` attends to the decoder's own tokens and `cross`
/// attends to the encoder's output.
enum class Component { none, encoder, decoder, cross };

/// The name of a head. The layer is numbered within its component.
struct Head {
  Component component = Component::none;
  std::size_t layer = 0;
  std::size_t head = 0;

  friend bool operator==(const Head&, const Head&) = default;
};

/// Returns "LAYER.HEAD", or "enc.LAYER.HEAD", "dec.LAYER.HEAD" or "cross.LAYER.HEAD".
[[nodiscard]] std::string to_string(const Head& head);

/// The attention of one layer.
struct LayerInfo {
  Component component = Component::none;
  std::size_t number = 0;  // within the component
  std::size_t heads = 0;
  std::size_t kv_heads = 0;  // heads / kv_heads neighbours share a key/value head
  std::size_t d_head = 0;    // width of a query and of a key
  std::size_t d_value = 0;   // width of a value; 0: the checkpoint has no W_V
  bool causal = false;       // a query attends to no later key
  std::string kind;          // "full", "window:64", "block:16", "strided:8" or "linear"
};

/// The sizes of a model.
struct ModelInfo {
  std::string name;    // as given to Model::open
  std::string family;  // "bert", "llama", ...; `attnctl info --families` lists them
  std::size_t d_model = 0;
  std::size_t vocabulary = 0;                // number of token ids; 0: the model reads no ids
  std::optional<std::size_t> max_positions;  // longest input in tokens; nullopt: no limit
  std::uint64_t parameters = 0;
  std::vector<LayerInfo> layers;  // of the encoder, then `decoder` and `cross` in turn
};

/// A problem that did not stop the work, but that users of the results should know.
struct Warning {
  std::string code;         // stable: "non_finite_weight", "fully_masked_row", ...
  std::string message;      // of the first occurrence
  std::uint64_t count = 1;  // number of occurrences
};

/// A model whose weights are on disk or in memory. It never changes, except that it collects warnings. Copies
/// share everything. Safe to use from several threads.
class Model {
 public:
  /// Opens a directory in Hugging Face layout, a weights file (safetensors, PyTorch, GGUF, NPZ, JSON), or a
  /// name in the local Hugging Face cache. `config` replaces the model's config.json. Weights are read when
  /// they are used. Throws Error(environment) if a file cannot be found or opened, Error(bad_input) if its
  /// content is invalid or the model is unsupported, Error(limit) if sizes exceed a limit.
  [[nodiscard]] static Model open(const std::string& model, const std::optional<std::string>& config = {});

  [[nodiscard]] const ModelInfo& info() const;
  /// Returns the warnings so far: those of opening the model, and of all runs and analyses of it.
  [[nodiscard]] std::vector<Warning> warnings() const;

  struct Parts;  // for the library itself
  [[nodiscard]] Parts& parts() const { return *parts_; }

 private:
  explicit Model(std::shared_ptr<Parts> parts);
  std::shared_ptr<Parts> parts_;
};

}  // namespace attn
