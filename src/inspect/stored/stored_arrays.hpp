#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "model/config/config.hpp"

// Finds arrays of patterns, and the tokens of their inputs, in a file that another program made.
namespace attnctl::inspect {

/// A head of a file, with the number of its layer within the component.
struct StoredHead {
  model::Component component = model::Component::none;
  std::size_t layer = 0;
  std::size_t head = 0;
  auto operator<=>(const StoredHead&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 errs
};

/// An array of patterns [queries, keys] of several heads and inputs.
struct StoredArray {
  std::size_t tensor = 0;              // index in Checkpoint::tensors()
  std::vector<StoredHead> heads = {};  // ascending
  std::size_t heads_together = 1;      // the patterns of this number of heads are adjacent for one input
  std::size_t first_input = 0;
  std::size_t inputs = 1;
  std::size_t queries = 0, keys = 0;

  /// Returns the index of the pattern of heads[head] for an input, which the array must have.
  [[nodiscard]] std::size_t pattern(std::size_t head, std::size_t input) const {
    const std::size_t group = head / heads_together * inputs + input - first_input;
    return group * heads_together + head % heads_together;
  }
};

/// Returns the arrays of patterns, ordered by component, layer and input. The arrays of one component have
/// the same heads for all inputs. docs/plotting.md has the accepted names and shapes. `wanted` is the value
/// of --array, with # for the number of the layer, or empty. Throws Error(bad_input), with the name of
/// `path`, if there are none, or if their shapes do not fit together, and Error(limit) for too many layers,
/// heads or inputs.
[[nodiscard]] std::vector<StoredArray> find_stored_arrays(checkpoint::Checkpoint& file,
                                                          const std::string& path, const std::string& wanted);

/// Values of one array per input: of an array `NAME` [n] or [inputs, n], or of the arrays NAME_I [n] of each
/// input I. Empty if there is none of them; an input without an array has no values.
using InputNumbers = std::vector<std::vector<std::int64_t>>;
using InputTexts = std::vector<std::vector<std::string>>;

/// Return the numbers, or the strings, that the file has under `name`. `lengths` has the number of tokens of
/// each input. Throw Error(bad_input) if a shape does not fit `lengths`, or if a string is not UTF-8.
[[nodiscard]] InputNumbers numbers_of_inputs(checkpoint::Checkpoint& file, std::string_view name,
                                             const std::vector<std::size_t>& lengths);
[[nodiscard]] InputTexts texts_of_inputs(checkpoint::Checkpoint& file, std::string_view name,
                                         const std::vector<std::size_t>& lengths);

}  // namespace attnctl::inspect
