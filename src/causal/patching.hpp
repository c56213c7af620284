#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/matrix_view.hpp"
#include "causal/recording.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

// Replacement values for the z of a head that come from a part of another pass: its pattern, its values, or
// what an earlier head sends to it.
namespace attnctl::causal {

/// The pattern and the values of one head for one sequence.
struct HeadParts {
  OwnedMatrix<float> pattern;  // [n, m]
  OwnedMatrix<float> values;   // [m, v]
};

/// Returns the pattern and the values of each head, [layers][heads]; with a selection, those of its heads,
/// and nothing for the others. The batch must have one sequence.
[[nodiscard]] std::vector<std::vector<HeadParts>> record_parts(
    const model::Model& model, const input::Batch& batch, forward::RunContext& context,
    const std::optional<forward::Selection>& selection = {});

/// Returns z = pattern values [n, v], added in float64.
[[nodiscard]] OwnedMatrix<float> weighted_values(MatrixView<const float> pattern,
                                                 MatrixView<const float> values);

/// One of the three inputs of a head.
enum class HeadInput { query, key, value };

/// Returns true if later layers read the output of each head as a term of a sum: no norm comes after the sum
/// or after the output projection.
[[nodiscard]] bool has_additive_stream(const model::ModelConfig& config);

/// Returns the inputs of head `to` that read the residual stream into which head `from` writes. The queries
/// of cross-attention read the stream of the decoder, its keys and values that of the encoder, with its norm.
/// Empty if `to` is not in a later layer, or if one is in the encoder and the other in self-attention of the
/// decoder.
[[nodiscard]] std::vector<HeadInput> path_inputs(const model::ModelConfig& config, model::HeadId from,
                                                 model::HeadId to);

/// Returns the z [n, v] that head `to` has if its queries, its keys or its values read a residual stream in
/// which the z of the earlier head `from` is `z` instead of the recorded one. All else is as recorded: other
/// heads and the MLPs between the two do not see the change (Wang et al. 2022, appendix B). The batch must
/// have the recorded sequence only, has_additive_stream() must be true, and `input` one of path_inputs().
[[nodiscard]] OwnedMatrix<float> z_after_path(const model::Model& model, const input::Batch& batch,
                                              const RecordedSequence& recorded, model::HeadId from,
                                              MatrixView<const float> z, model::HeadId to, HeadInput input,
                                              forward::RunContext& context);

}  // namespace attnctl::causal
