#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attnctl/model.hpp"

namespace attn {

/// One input of a model: a text, or token ids.
struct Input {
  std::string text = {};  // encoded by the model's tokenizer; ignored if `ids` is not empty
  std::optional<std::string> text_pair = {};   // second text of a pair; ignored if `ids` is not empty
  std::vector<std::int64_t> ids = {};          // [n], token ids; empty: the input is `text`
  std::vector<std::int64_t> type_ids = {};     // [n], token types of `ids`; empty: all 0
  std::vector<std::uint8_t> key_visible = {};  // [n], 1: queries may attend to this key; empty: all 1
  // The target, which is the decoder's input, for encoder-decoder models: a text, or token ids. If both are
  // empty, the input has no target.
  std::string target_text = {};
  std::vector<std::int64_t> target_ids = {};  // [t], token ids; empty: the target is `target_text`
  std::string id = {};                        // unique in the batch; empty: its number in the batch, from 0
};

/// The tokens of one input.
struct Sequence {
  std::string id;
  std::vector<std::int64_t> ids;  // [n]
  std::vector<std::string>
      tokens;  // [n], strings of the vocabulary; "#ID" for an id without one; empty without vocabulary
  std::vector<std::int64_t> target_ids;    // [t], ids of the decoder's tokens
  std::vector<std::string> target_tokens;  // [t], strings of the decoder's tokens

  /// Returns the tokens that are the queries of a component: `target_tokens` for `decoder` and `cross`,
  /// otherwise `tokens`.
  [[nodiscard]] const std::vector<std::string>& query_tokens(Component component) const {
    return component == Component::decoder || component == Component::cross ? target_tokens : tokens;
  }
  /// Returns the tokens that are the keys of a component: `target_tokens` for `decoder`, otherwise `tokens`.
  [[nodiscard]] const std::vector<std::string>& key_tokens(Component component) const {
    return component == Component::decoder ? target_tokens : tokens;
  }
};

/// Encoded and checked inputs of a model. A batch never changes. Its copies share their data.
class Batch {
 public:
  /// Encodes and checks the inputs. Throws Error(usage) if `inputs` is empty, or if an input has a target and
  /// the model is not an encoder-decoder model. Throws Error(bad_input) if an input does not fit the model,
  /// for example if it is empty, is longer than the model's largest number of positions, contains token ids
  /// outside the vocabulary, or is a text and the model has no tokenizer; and if two inputs have the same
  /// `id`. Also throws the errors of Tokenizer::encode.
  Batch(const Model& model, const std::vector<Input>& inputs);

  [[nodiscard]] const Model& model() const;
  [[nodiscard]] const std::vector<Sequence>& sequences() const;  // in the order of the inputs

  struct Parts;  // used only inside the library
  [[nodiscard]] const Parts& parts() const { return *parts_; }

 private:
  std::shared_ptr<const Parts> parts_;
};

}  // namespace attn
