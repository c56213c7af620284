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
  std::string text = {};                       // encoded by the model's tokenizer; not used if there are ids
  std::optional<std::string> text_pair = {};   // second text of a pair
  std::vector<std::int64_t> ids = {};          // [n]
  std::vector<std::int64_t> type_ids = {};     // [n], for ids; empty: all 0
  std::vector<std::uint8_t> key_visible = {};  // [n], 1: the key may be attended to; empty: all
  // The decoder's input, for models with an encoder and a decoder: a text, or token ids. With neither, only
  // the encoder runs.
  std::string target_text = {};
  std::vector<std::int64_t> target_ids = {};  // [t]
  std::string id = {};                        // unique in the batch; empty: the number of the input
};

/// The tokens of one input.
struct Sequence {
  std::string id;
  std::vector<std::int64_t> ids;           // [n]
  std::vector<std::string> tokens;         // [n], as in the vocabulary; empty if no vocabulary is known
  std::vector<std::int64_t> target_ids;    // [t], the decoder's
  std::vector<std::string> target_tokens;  // [t]

  /// Return the tokens of the queries and of the keys of a component: those of the input or of the target.
  [[nodiscard]] const std::vector<std::string>& query_tokens(Component component) const {
    return component == Component::decoder || component == Component::cross ? target_tokens : tokens;
  }
  [[nodiscard]] const std::vector<std::string>& key_tokens(Component component) const {
    return component == Component::decoder ? target_tokens : tokens;
  }
};

/// Inputs of a model, encoded and checked. Never changes; copies share everything.
class Batch {
 public:
  /// Throws Error(usage) without inputs. Throws Error(bad_input) if an input is empty, longer than the
  /// model's positions, has ids outside the vocabulary, or an id that occurs twice, or if it is a text and
  /// the model has no tokenizer.
  Batch(const Model& model, const std::vector<Input>& inputs);

  [[nodiscard]] const Model& model() const;
  [[nodiscard]] const std::vector<Sequence>& sequences() const;  // in the order of the inputs

  struct Parts;  // for the library itself
  [[nodiscard]] const Parts& parts() const { return *parts_; }

 private:
  std::shared_ptr<const Parts> parts_;
};

}  // namespace attn
