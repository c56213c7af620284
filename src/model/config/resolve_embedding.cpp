#include <cmath>

#include "base/error.hpp"
#include "model/config/resolve.hpp"

namespace attnctl {
namespace {

bool counts_past_padding(const ConfigKeys& keys) {
  return !keys.padding.names.empty() || keys.padding.otherwise;
}

std::size_t resolve_padding(const SizeKey& key, const ConfigReader& config) {
  return config.index(std::span(key.names)).value_or(key.otherwise.value_or(0));
}

std::optional<TokenDropout> resolve_token_dropout(const TokenDropoutSpec& spec, const ConfigReader& config) {
  if (!config.flag(spec.only_if).value_or(false)) return std::nullopt;
  const auto token = config.index(std::span(&spec.token, 1));
  if (!token) config.missing(spec.token, fmt::format("an id, as /{} is true", spec.only_if));
  return TokenDropout{static_cast<std::int64_t>(*token), spec.kept};
}

}  // namespace

std::optional<std::size_t> resolve_max_positions(const ConfigKeys& keys, const ConfigReader& config) {
  if (const PatchGrid grid = resolve_pixels(keys, config); grid.present()) return grid.patches() + 1;
  if (keys.max_positions.names.empty() && !keys.max_positions.otherwise) return std::nullopt;
  const std::size_t rows = config.size(keys.max_positions);
  if (!counts_past_padding(keys)) return rows;
  const std::size_t padding = resolve_padding(keys.padding, config);
  if (rows > padding + 1) return rows - padding - 1;
  const std::string from = keys.padding.names.empty()
                               ? fmt::format("{}", padding)
                               : fmt::format("{} ({})", config.pointer(keys.padding.names.front()), padding);
  fail(Status::bad_input, "{}: {}: got {}, need more than {}, where positions begin past {}",
       escaped(config.file()), config.pointer(keys.max_positions.names.front()), rows, padding + 1, from);
}

EmbeddingConfig resolve_embedding(const FamilySpec& family, const ConfigReader& config,
                                  const ModelConfig& model) {
  const ConfigKeys& keys = family.keys;
  EmbeddingConfig embedding;
  embedding.pixels = resolve_pixels(keys, config);
  if (!embedding.pixels.present()) embedding.vocabulary = config.size(keys.vocabulary);
  embedding.width =
      config.size(std::span(keys.embedding.names)).value_or(keys.embedding.otherwise.value_or(model.d_model));
  embedding.position = family.position;
  embedding.positions_last = family.positions_last;
  if (!family.embedding.token_type.empty()) {
    embedding.token_types =
        config.index(std::span(keys.token_types.names)).value_or(keys.token_types.otherwise.value_or(0));
  }
  embedding.norm = norm_of(model.layers.at(0).norm, family.embedding.norm);
  embedding.position_offset = family.position_offset;
  embedding.counts_visible = family.counts_visible;
  embedding.projected_first = family.projected_first;
  embedding.zero_hidden = family.zero_hidden;
  if (family.token_dropout) embedding.dropout = resolve_token_dropout(*family.token_dropout, config);
  const double root = family.embedding_by_root ? std::sqrt(static_cast<double>(model.d_model)) : 1;
  embedding.multiplier = root * config.number(keys.embedding_multiplier);
  embedding.projection = resolve_parts(family.embedding.projection, config);
  if (family.embedding.projection.weight_presence.rule == Presence::Rule::width_differs &&
      embedding.width == model.d_model) {
    embedding.projection = {};
  }
  if (counts_past_padding(keys)) {
    embedding.padding = resolve_padding(keys.padding, config);
    embedding.position_offset = *embedding.padding + 1;
  }
  return embedding;
}

}  // namespace attnctl
