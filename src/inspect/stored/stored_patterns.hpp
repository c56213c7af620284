#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "inspect/stored/stored_arrays.hpp"
#include "model/model.hpp"
#include "results/results.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::inspect {

/// The options of `attnctl view` about its file.
struct StoredRequest {
  std::string file;
  std::string array = {};                  // --array; empty: the names of find_stored_arrays()
  std::optional<std::string> tokens = {};  // --tokens: a file with the tokens of the inputs
  std::string model = {};                  // --model: the model of the vocabulary; empty: none
  bool softmax = false;                    // --softmax: the arrays are scores
};

/// Attention patterns that a file contains. They take the place of a forward pass: run() passes them to
/// observers. The model has only layers and heads, and no weights.
class StoredPatterns {
 public:
  /// Opens the file, finds its arrays and reads the tokens of the inputs. Throws the errors of
  /// checkpoint::open_checkpoint() and find_stored_arrays(), and Error(bad_input) if arrays do not fit
  /// together. `warnings` must outlive this object.
  StoredPatterns(const StoredRequest& request, Warnings& warnings)
      : StoredPatterns(request, checkpoint::open_checkpoint(request.file, warnings), warnings) {}
  /// As above, with the arrays of `file`, which must be sorted.
  StoredPatterns(const StoredRequest& request, std::unique_ptr<checkpoint::Checkpoint> file,
                 Warnings& warnings);

  [[nodiscard]] const model::Model& model() const { return *model_; }
  [[nodiscard]] const tokenizer::Vocabulary& vocabulary() const { return vocabulary_; }
  [[nodiscard]] const input::Batch& batch() const { return batch_; }

  /// Returns those of the heads whose patterns the file has. Throws Error(usage) if `all` is true and one of
  /// them is missing, or if none is left.
  [[nodiscard]] forward::Selection stored(const forward::Selection& heads, bool all) const;
  /// Returns whether the file has all heads of the layers 0, 1, 2, ..., so that they can be combined.
  [[nodiscard]] bool complete() const;

  /// Passes the patterns of the selected heads to all observers, as forward::run_forward() does. Throws
  /// Error(bad_input) if a weight is negative. May add the warnings row_sum, fully_masked_row and
  /// non_finite_pattern.
  void run(const forward::Selection& selection, std::span<forward::Observer* const> observers,
           forward::RunContext& context) const;
  /// Returns the bytes that run() needs besides its observers.
  [[nodiscard]] std::uint64_t bytes(const forward::RunContext& context) const;

  /// Returns the record `source` of a document.
  [[nodiscard]] Record record() const;

 private:
  /// The first array of a head, and the index of the head in it. The arrays of other inputs follow.
  struct StoredPlace {
    std::size_t array = 0;
    std::size_t head = 0;
  };
  struct Job;

  [[nodiscard]] std::size_t array_of(model::HeadId head, std::size_t sequence) const;
  [[nodiscard]] const checkpoint::TensorInfo& info(const StoredArray& array) const {
    return file_->tensors()[array.tensor];
  }
  void make_model(Warnings& warnings);
  void make_batch();
  void add_names(std::optional<InputTexts> given);
  /// Sets the words of a side whose tokens have these ids in vocabulary_.
  void add_words(input::Sequence& side, std::span<const std::int64_t> ids) const;
  void name_side(bool targets, std::optional<InputTexts> given);

  StoredRequest request_;
  std::unique_ptr<checkpoint::Checkpoint> file_;
  std::vector<StoredArray> arrays_;
  std::map<model::HeadId, StoredPlace> places_;
  std::optional<model::Model> model_;
  tokenizer::Vocabulary vocabulary_;
  input::Batch batch_;
  /// [inputs], the position in the arrays of the first token of each input, and of each target: earlier ones
  /// are padding.
  std::vector<std::size_t> first_, first_target_;
};

}  // namespace attnctl::inspect
