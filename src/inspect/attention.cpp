#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "input/words.hpp"
#include "inspect/describe.hpp"
#include "inspect/inspection.hpp"

// The attention on each input, as an HTML page shows it.
namespace attnctl::inspect {
namespace {

using analysis::Captured;

/// Returns the words of the tokens; nullopt if queries and keys are not the same tokens, or if each token is
/// a word.
std::optional<Attention::WordLabels> words_of(const RunResults& run, const forward::Sides& sides) {
  const input::Sequence& tokens = sides.queries_of;
  if (run.request.by_word || &tokens != &sides.keys_of || tokens.tokens.size() != tokens.queries() ||
      tokens.key_embeddings.rows() > 0 || tokens.patches.rows() > 0)
    return std::nullopt;
  const input::WordUnits units = input::word_units(tokens, run.vocabulary);
  if (units.count == tokens.queries()) return std::nullopt;
  const input::Sequence words = input::pooled_sequence(tokens, units, run.vocabulary);
  return Attention::WordLabels{token_labels(run, words), units.unit_of_token};
}

/// Returns the image of an input, with its darkest value as 0 and its brightest as 255; nullopt if the input
/// is not an image of one or three channels.
std::optional<Attention::Image> image_of(const PatchGrid& grid, const input::Sequence& sequence) {
  const OwnedMatrix<float>& patches = sequence.patches;
  if (!grid.present() || patches.rows() != grid.patches() || (grid.channels != 1 && grid.channels != 3))
    return std::nullopt;
  const auto [low, high] = std::ranges::minmax(patches.values());
  const float range = high > low ? high - low : 1;
  std::vector<float> pixels(3 * grid.height * grid.width);
  for (std::size_t patch = 0; patch < patches.rows(); ++patch) {
    const std::size_t top = patch / grid.columns() * grid.patch_height;
    const std::size_t left = patch % grid.columns() * grid.patch_width;
    for (std::size_t colour = 0; colour < 3; ++colour) {
      const std::size_t channel = grid.channels == 1 ? 0 : colour;
      for (std::size_t y = 0; y < grid.patch_height; ++y) {
        for (std::size_t x = 0; x < grid.patch_width; ++x) {
          const float value = patches(patch, (channel * grid.patch_height + y) * grid.patch_width + x);
          pixels[(colour * grid.height + top + y) * grid.width + left + x] = 255 * (value - low) / range;
        }
      }
    }
  }
  return Attention::Image{grid.rows(), grid.columns(),
                          make_tensor({3, grid.height, grid.width}, std::move(pixels))};
}

/// Returns the array with leading axes merged into one: [heads, rows, columns].
Tensor stacked(const Tensor& array) {
  const std::size_t rows = array.shape[array.shape.size() - 2];
  const std::size_t columns = array.shape.back();
  return items_of(array, 0, array.size() / std::max<std::size_t>(rows * columns, 1), 2);
}

}  // namespace

std::vector<Attention> attention_of(const RunResults& run) {
  std::vector<Attention> all;
  for (const InputArray& patterns : run.arrays) {
    if (patterns.what != Captured::pattern) continue;
    const forward::Sides sides = run.sides(patterns.sequence, patterns.component);
    const std::vector<model::HeadId>& heads = run.heads_of(patterns);
    const input::Sequence& shown = run.shown.sequences[patterns.sequence];
    Attention& attention = all.emplace_back();
    attention.input = shown.id;
    attention.component = name_of(run.components[patterns.component].component);
    attention.text = shown.text.value_or("");
    attention.queries = token_labels(run, sides.queries_of);
    attention.keys = token_labels(run, sides.keys_of);
    if (sides.keys_of.key_embeddings.rows() > 0) {
      attention.keys.clear();
      for (std::size_t key = 0; key < sides.keys(); ++key) attention.keys.push_back(std::to_string(key));
    }
    const analysis::HeadAxes kv_heads = analysis::HeadAxes::of_kv_heads(heads, run.config());
    for (const model::HeadId head : heads) {
      const model::LayerConfig& layer = run.config().layers[head.layer];
      attention.heads.push_back({static_cast<std::int64_t>(layer.number),
                                 static_cast<std::int64_t>(head.head), model::head_name(run.config(), head),
                                 kv_heads.place({head.layer, layer.attention.kv_head(head.head)}).value(),
                                 layer.attention.scale});
    }
    attention.patterns = stacked(patterns.array);
    for (const InputArray& array : run.arrays) {
      if (array.sequence != patterns.sequence || array.component != patterns.component) continue;
      if (array.what == Captured::scores) attention.scores = stacked(array.array);
      if (array.what == Captured::queries) attention.query_vectors = stacked(array.array);
      if (array.what == Captured::keys) attention.key_vectors = stacked(array.array);
    }
    if (attention.scores.size() == 0 || attention.query_vectors.size() == 0 ||
        attention.key_vectors.size() == 0)
      attention.scores = attention.query_vectors = attention.key_vectors = {};
    attention.words = words_of(run, sides);
    if (&sides.queries_of == &sides.keys_of)
      attention.image = image_of(run.config().embedding.pixels, sides.queries_of);
  }
  return all;
}

bool fits_neuron_view(const forward::Selection& selection, const model::ModelConfig& config,
                      const input::Batch& batch) {
  constexpr std::size_t kMostNumbers = 1'000'000;
  const std::size_t width = config.layers[selection.heads.front().layer].attention.d_head;
  std::size_t numbers = 0;
  for (const model::HeadId head : selection.heads) {
    const model::LayerConfig& layer = config.layers[head.layer];
    if (layer.attention.d_head != width) return false;
    for (const input::Sequence& sequence : batch.sequences) {
      const forward::Sides sides = forward::sides_of(layer.component, sequence);
      numbers += (sides.queries() + sides.keys()) * width + sides.queries() * sides.keys();
      if (numbers > kMostNumbers) return false;
    }
  }
  return true;
}

}  // namespace attnctl::inspect
