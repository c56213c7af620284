#include "cli/options/seeded_input.hpp"

#include <memory>

#include "input/sequences.hpp"

namespace attnctl::cli {

std::vector<std::int64_t> SeededInputs::ids(std::size_t length, std::size_t vocabulary) {
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < length; ++i) ids.push_back(static_cast<std::int64_t>(random_() % vocabulary));
  return ids;
}

void SeededInputs::fill(std::span<float> values) {
  for (float& value : values) value = static_cast<float>(random_()) * 0x1p-31F - 1;
}

OwnedMatrix<float> SeededInputs::matrix(std::size_t rows, std::size_t columns) {
  OwnedMatrix<float> values(rows, columns);
  fill(values.values());
  return values;
}

Sequence SeededInputs::next(std::size_t length, std::size_t target_length) {
  const EmbeddingConfig& embedding = config_.embedding;
  if (embedding.pixels.present()) {
    std::vector<float> pixels(embedding.pixels.image_size());
    fill(pixels);
    return make_pixel_sequence(pixels, embedding.pixels);
  }
  Sequence sequence;
  if (embedding.vocabulary > 0) {
    sequence.ids = ids(length, embedding.vocabulary);
  } else {
    sequence.embeddings = matrix(length, config_.d_model);
  }
  const bool apart = config_.d_key_input != config_.d_model;  // keys and values have a different width
  if (apart) sequence.key_embeddings = matrix(length, config_.d_key_input);
  if (config_.d_value_input != (apart ? config_.d_key_input : config_.d_model)) {
    if (!apart) sequence.key_embeddings = matrix(length, config_.d_key_input);
    sequence.value_embeddings = matrix(length, config_.d_value_input);
  }
  if (config_.decoder) {
    sequence.target = std::make_shared<Sequence>();
    sequence.target->ids = ids(target_length, config_.decoder->embedding.vocabulary);
  }
  return sequence;
}

}  // namespace attnctl::cli
