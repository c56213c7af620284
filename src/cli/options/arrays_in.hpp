#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/patch_grid.hpp"
#include "input/batch.hpp"

// Arrays that the command line names: embeddings and masks, one .npy file each.
namespace attnctl::cli {

/// [n, d] or [batch, n, d], of any numeric type. Throws Error(bad_input): another number of axes, no rows.
[[nodiscard]] std::vector<OwnedMatrix<float>> read_embeddings(const std::string& path);

/// [channels, height, width] or [batch, channels, height, width], floating-point: a sequence for each image,
/// cut as the grid says. Throws Error(bad_input): integers, another shape than the model's images have.
[[nodiscard]] std::vector<Sequence> read_images(const std::string& path, const PatchGrid& grid);

/// A mask over scores for each sequence of the batch: [n, m], [batch, n, m], [batch, 1, n, m] or [batch, h,
/// n, m]; bool or integer (1 = may attend, 0 = hidden) or float (added to the scores, -inf allowed). Throws
/// Error(bad_input): a shape that does not fit the batch, an integer other than 0 and 1, NaN or +inf.
void read_score_masks(const std::string& path, Batch& batch);

/// [batch, m], bool or integer: 1 = this key is visible. Errors as above.
void read_key_masks(const std::string& path, Batch& batch);

}  // namespace attnctl::cli
