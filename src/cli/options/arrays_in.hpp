#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/matrix_view.hpp"
#include "input/batch.hpp"

// Readers for .npy files that the command line names: embeddings, images and masks.
namespace attnctl::cli {

/// Reads [n, d] or [batch, n, d] of any numeric type. Throws Error(bad_input) for any other number of axes,
/// or for an array without rows.
[[nodiscard]] std::vector<OwnedMatrix<float>> read_embeddings(const std::string& path);

/// Reads [channels, height, width] or [batch, channels, height, width] of a floating-point type. Returns one
/// sequence per image, cut into the patches of `grid`. Throws Error(bad_input) for integers, or if the shape
/// is not that of the model's images.
[[nodiscard]] std::vector<Sequence> read_images(const std::string& path, const PatchGrid& grid);

/// Reads a mask over the scores of each sequence of the batch: [n, m], [batch, n, m], [batch, 1, n, m] or
/// [batch, h, n, m]. Bool and integer masks hold 1 (may attend) or 0 (hidden). Float masks are added to the
/// scores and may hold -inf. Throws Error(bad_input) if the shape does not fit the batch, and for NaN, +inf
/// and integers other than 0 and 1.
void read_score_masks(const std::string& path, Batch& batch);

/// Reads [batch, m], bool or integer: 1 means that the key is visible. Throws the same errors as
/// read_score_masks().
void read_key_masks(const std::string& path, Batch& batch);

}  // namespace attnctl::cli
